"""
Writes what follows from the tables of ``rsmq/vocabulary`` and can't be made when it runs: the types
of options and answers, for type checkers and editors; the lists of a queue's fields and of the
records of messages, for scripts; the tables of the page of stored facts; and rows of the reference.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS, CREATE, QUEUE_ATTRIBUTES, SET
from rsmq.vocabulary.sends import BATCH, PUBLISH, SCHEDULE, SEND, TASK, ValueKind
from rsmq.vocabulary.signatures import OptionCall
from rsmq.vocabulary.stored import (
    QUEUE_FIELDS,
    RECORDS_BY_WAY,
    SHOWN_FACTS,
    STORED_FACTS,
    Carrier,
    StoredFact,
)

_PACKAGE = Path(__file__).parents[1] / "rsmq"
_SENDS = {
    SEND: "SendArguments",
    BATCH: "BatchArguments",
    PUBLISH: "PublishArguments",
    TASK: "TaskSendArguments",
    SCHEDULE: "ScheduleSendArguments",
}
_QUEUES = {CREATE: "CreateArguments", SET: "SetArguments"}
_HEAD = '''\
# Generated from rsmq/vocabulary/{source}.py by scripts/generate-sync. Do not edit.
"""
The options of {what}, as type checkers and editors read them.
"""

from __future__ import annotations

{imports}
'''
_IMPORTS_OF_SENDS = """\
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict"""
_IMPORTS_OF_QUEUES = """\
from datetime import timedelta
from typing import Literal, TypedDict"""
_SHOWN = """\
# Generated from rsmq/vocabulary by scripts/generate-sync. Do not edit.
\"\"\"
The attributes of a queue and the facts of a message in answers of HTTP. Their tables describe them.
\"\"\"

from __future__ import annotations

from typing import TypedDict


class AttributesJson(TypedDict):
    \"\"\"The attributes of a queue.\"\"\"

{attributes}


class FactsJson(TypedDict):
    \"\"\"The facts of a message that all faces show.\"\"\"

{facts}
"""
#: The types of values in JSON; others are texts.
_OF_JSON = {
    ValueKind.SECONDS: "float",
    ValueKind.FLAG: "bool",
    ValueKind.WHOLE_NUMBER: "int",
}
_FIELDS = """\
-- Generated from rsmq/vocabulary/queues.py by scripts/generate-sync. Do not edit.

-- Returns the fields of a queue's attributes.
local function attribute_fields()
  return {{
{attributes},
  }}
end

-- Returns these, and the others that stay when the queue is purged.
local function fields_that_stay()
  return {{
{staying},
  }}
end
"""


_KEYS = """\
-- Generated from rsmq/vocabulary/stored.py by scripts/generate-sync. Do not edit.

-- Returns the ends of the keys beside a queue with what {what}.
local function {name}_keys()
  return {{{names}}}
end
"""
#: The carriers, as the page of stored facts calls them.
_CARRIERS = {
    Carrier.MOVE: "move",
    Carrier.DEAD_LETTER: "dead letter",
    Carrier.REDRIVE: "redrive",
    Carrier.UNDO: "undo",
    Carrier.EXPORT: "export, import",
    Carrier.EXPORT_NEW: "import with new ids",
    Carrier.MIGRATE: "migrate",
    Carrier.SPARK_MIGRATE: "job migrate",
    Carrier.ARCHIVE: "archive, replay",
}
_WAYS = {
    "carried": "messages bring along that are imported, in the order of MESSAGE_RECORDS",
    "moved": "messages take along to another queue",
    "shown": "is returned with a message, its group aside",
}


def generate() -> Iterator[tuple[Path, str]]:
    """Yield each file with its text."""
    head = _HEAD.format(source="sends", what="sends", imports=_IMPORTS_OF_SENDS)
    yield _PACKAGE / "vocabulary" / "send_arguments.py", _write_module(head, _SENDS)
    head = _HEAD.format(source="queues", what="calls that set attributes of a queue",
                        imports=_IMPORTS_OF_QUEUES)  # fmt: skip
    yield _PACKAGE / "vocabulary" / "queue_arguments.py", _write_module(head, _QUEUES)
    attributes = (_write_shown(each, is_set=each.default is not None) for each in QUEUE_ATTRIBUTES)
    facts = (_write_shown(each, is_set=False) for each in SHOWN_FACTS)
    shown = _SHOWN.format(attributes="\n".join(attributes), facts="\n".join(facts))
    yield _PACKAGE / "vocabulary" / "shown_values.py", shown
    staying = (*ATTRIBUTE_FIELDS, *(each.field for each in QUEUE_FIELDS if each.stays))
    lists = {"attributes": _write_names(ATTRIBUTE_FIELDS), "staying": _write_names(staying)}
    path = _PACKAGE / "lua" / "fragments" / "attribute_fields.lua"
    yield path, _FIELDS.format(**lists)
    for name, records in RECORDS_BY_WAY.items():
        names = ", ".join(f"':x:{each}'" for each in records)
        path = _PACKAGE / "lua" / "fragments" / f"{name}_keys.lua"
        yield path, _KEYS.format(what=_WAYS[name], name=name, names=names)
    page = _PACKAGE.parent / "docs" / "contributing" / "stored-facts.md"
    text = page.read_text()
    for head, rows in _write_tables():
        before, _, after = text.partition(head)
        text = before + head + rows + after[after.index("\n\n") + 1 :]
    yield page, text
    page = _PACKAGE.parent / "docs" / "reference.md"
    yield page, _write_reference(page.read_text())


def _write_reference(text: str) -> str:
    """Return the reference with the options of calls, and the attributes and facts of values."""
    for call in (SEND, BATCH, PUBLISH, CREATE, SET):
        options = {name: f"{name}={each.default_in(call)!r}" for name, each in call.options.items()}
        head, found = re.findall(rf"^(\| `{call.name}\(.*? \*, )(.*?)\)`", text, re.MULTILINE)[0]
        own = [each for each in found.split(", ") if each.partition("=")[0] not in options]
        text = text.replace(f"{head}{found})", f"{head}{', '.join([*options.values(), *own])})")
    facts = ", ".join(f"`{each.name}`" for each in SHOWN_FACTS)
    text = re.sub(r"(?<=the facts )`.*`(?= that it was sent with)", facts, text)
    [listed] = re.findall(r"^\| `QueueAttributes` \| (.*) \|$", text, re.MULTILINE)
    names = [*listed.split(", "), *(f"`{each.name}`" for each in QUEUE_ATTRIBUTES)]
    return text.replace(listed, ", ".join(dict.fromkeys(names)))


def _write_tables() -> Iterator[tuple[str, str]]:
    """Yield the head of each table of the page of stored facts, with the rows below it."""
    names = [_CARRIERS[each] for each in Carrier]
    cells = (
        (f"`{fact.name}`", *("" if each in fact.left_by else "yes" for each in Carrier))
        for fact in STORED_FACTS
    )
    head = f"| | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}\n"
    yield head, "".join(f"| {' | '.join(each)} |\n" for each in cells)
    rows = (f"| {each.text} | {_write_reasons(each)} |\n" for each in STORED_FACTS if each.left_by)
    yield "| fact | reason |\n|---|---|\n", "".join(rows)


def _write_reasons(fact: StoredFact) -> str:
    carriers: dict[str, list[str]] = {}
    for carrier, reason in fact.left_by.items():
        carriers.setdefault(reason, []).append(_CARRIERS[carrier])
    if len(carriers) == 1:
        return next(iter(carriers))
    return "; ".join(f"{reason} ({', '.join(names)})" for reason, names in carriers.items())


def _write_names(fields: Iterable[str]) -> str:
    names = ", ".join(f"'{each}'" for each in fields)
    return textwrap.fill(names, 110, initial_indent=" " * 4, subsequent_indent=" " * 4)


def _write_shown(each: Any, *, is_set: bool) -> str:
    return f"    {each.name}: {_OF_JSON.get(each.kind, 'str')}{'' if is_set else ' | None'}"


def _write_module(head: str, names: dict[OptionCall, str]) -> str:
    classes = [_write_class(call, name) for call, name in names.items()]
    return "\n\n".join([head.rstrip("\n"), *classes]) + "\n"


def _write_class(call: OptionCall, name: str) -> str:
    lines = [
        f"\nclass {name}(TypedDict, total=False):",
        f'    """The options of ``{call.name}``."""',
    ]
    for option in call.options.values():
        lines += _write_option(option, call)
    return "\n".join(lines)


def _write_option(option: Any, call: OptionCall) -> Iterator[str]:
    detail = option.detail_in(call)
    detail = detail[0].upper() + detail[1:]
    yield from ("", f"    {option.name_in(call)}: {option.annotation_in(call)}")
    if len(detail) <= 100 - 4 - 6:
        yield f'    """{detail}"""'
        return
    text = textwrap.fill(detail, 96, break_on_hyphens=False)
    yield from ('    """', *textwrap.indent(text, "    ").splitlines(), '    """')
