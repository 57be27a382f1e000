"""
The export of the messages of a queue.
"""

from __future__ import annotations

from rsmq.errors import InvalidFormat
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.web.export import csv_writer, export, write_json_line
from rsmq.web.fields import Field, Shape, number_of, one_of
from rsmq.web.json_text import read_columns
from rsmq.web.routes.forms import QUEUE
from rsmq.web.routes.message_list import STATE, check_state
from rsmq.web.search import MessageQuery
from rsmq.web.table import ApiAnswer, ApiCall, RawBody, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_MESSAGES = 100_000
_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


async def _export(call: ApiCall) -> ApiAnswer:
    values = call.values
    form = values.get("format", "jsonl")
    if form not in _TYPES:
        raise InvalidFormat("format", value=form, hint=f"It is one of {', '.join(_TYPES)}.")
    text = values.get("filter")
    query = MessageQuery(
        call.names[QUEUE],
        check_state(call),
        SearchFilter() if text is None else parse_filter(text),
        1,
        call.redaction,
    )
    number = check_whole_number("max", values.get("max", _MAX_MESSAGES), 1, _MAX_MESSAGES)
    write, head = csv_writer(read_columns(values.get("columns", "")))
    if form == "jsonl":
        write, head = write_json_line, b""
    return ApiAnswer(
        stream=await export(call.queues, query, number, write, head),
        headers={
            "Content-Type": _TYPES[form],
            "Content-Disposition": f'attachment; filename="messages.{form}"',
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


ROUTES = (
    Route(
        "GET", "/queues/{queue}/messages:export", Scope.PEEK,
        "Export messages as JSON lines or CSV, without receiving them.", _export,
        query=(
            Field(
                "format", Shape.TEXT, "jsonl, as in the list, or csv; jsonl by default.",
                rule=one_of(*_TYPES),
            ),
            number_of("Messages", _MAX_MESSAGES, _MAX_MESSAGES, "max"),
            STATE,
            Field("filter", Shape.TEXT, "Only those that fit, such as json.country:DE rc>=3."),
            Field(
                "columns", Shape.TEXT, "Of csv: JSON paths with commas between them, instead of "
                "the body.",
            ),
        ),
        answers={200: "messages; the last line has an error if it is not complete"},
        result=RawBody("application/x-ndjson"),
    ),
)  # fmt: skip
