"""
The fields of the forms that create a queue and change its attributes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from rsmq.web.pages.actions.form import Effect, Fields, Input, one
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.recent_changes import read_changes, say_changes
from rsmq.web.pages.table import PageCall

#: The size limit of a queue that has none.
_UNLIMITED = -1

ATTRIBUTES = (
    Input("vt", "Visibility timeout", "number", "30", "Seconds for which a received message is "
          "hidden, 0 to 9,999,999. Choose more than the slowest handler takes, or the message is "
          "received again while it is handled."),
    Input("delay", "Delay", "number", "0", "Seconds for which a new message is hidden."),
    Input("maxsize", "Size limit", "number", "65536", "1,024 to 65,536 characters or bytes; -1 is "
          "unlimited."),
    Input("keep", "Expiry", "number", "0", "Seconds after its send at which a message expires; 0 "
          "is never. Node and PHP deliver expired messages."),
)  # fmt: skip
_EXPIRED = Input(
    "expired", "Expired messages", "choice", "drop",
    choices=(("drop", "are removed"), ("dead-letter", "become dead letters")),
)  # fmt: skip


async def effect_of_change(call: PageCall, fields: Fields) -> Effect:
    """Show the present values, and who has changed the visibility timeout in the last hour."""
    name = one(fields, "queue")
    queue = await call.read("/queues/{queue}", {"queue": name})
    entries = await read_changes(call)
    return Effect(
        "They hold for later sends and receives. Hidden messages stay hidden as they are.",
        inputs=tuple(
            replace(
                each, value=str(queue[each.name] or 0),
                hint=f"Now {_show_present(each, queue[each.name])}. {each.hint}".rstrip(),
            )
            for each in (*ATTRIBUTES, _EXPIRED)
        ),
        lines=tuple(say_changes(entries, [name], time.time() * 1000)),
    )  # fmt: skip


def _show_present(attribute: Input, value: Any) -> str:
    """Return the stored value of an attribute, for the form that changes it."""
    if attribute is _EXPIRED:
        return f"they {dict(_EXPIRED.choices)[value or _EXPIRED.value]}"
    if attribute.name == "maxsize":
        return "unlimited" if value == _UNLIMITED else show_number(value)
    return "never" if value is None else f"{show_number(value)} s"
