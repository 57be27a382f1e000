"""
The tail of a queue: its new messages, as they are sent.
"""

from __future__ import annotations

import re

from rsmq.web.routes.forms import QUEUE
from rsmq.web.table import ApiAnswer, ApiCall, RawBody, Route, Scope
from rsmq.web.tail import follow_queue

_LAST_EVENT = re.compile(r"([0-9]{1,15})\.([0-9a-f]{8})\.([0-9]{1,15})")


async def _tail(call: ApiCall) -> ApiAnswer:
    # An id that is not ours can't be resumed; a browser can't change it.
    match = _LAST_EVENT.fullmatch(call.headers.get("last-event-id", ""))
    last_event = (int(match[1]), match[2], int(match[3])) if match else None
    events = await follow_queue(
        call.queues, call.names[QUEUE], last_event, call.redaction, call.keeps_rights
    )
    headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    return ApiAnswer(stream=events, headers=headers)


ROUTES = (
    Route(
        "GET", "/queues/{queue}/tail", Scope.PEEK,
        "Follow the new messages of a queue without receiving them.", _tail,
        answers={200: "events, until the client leaves"}, result=RawBody("text/event-stream"),
    ),
)  # fmt: skip
