"""
The fields of the forms that create a queue and change its attributes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from rsmq.vocabulary.queues import CREATE, SET, QueueCall
from rsmq.vocabulary.sends import ValueKind
from rsmq.web.pages.actions.form import Effect, Fields, Input, one
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.recent_changes import read_changes, say_changes
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.forms import QueueJson


def attribute_inputs(call: QueueCall, *, with_values: bool = True) -> tuple[Input, ...]:
    """Return the fields of a form for the attributes that a call sets."""
    return tuple(
        Input(
            each.name,
            each.title[0].upper() + each.title[1:],
            "choice" if each.choices else "text" if each.kind is ValueKind.RATE else "number",
            str(each.default_in(CREATE)) if with_values else "",
            "" if each.choices else f"{each.text} {each.hint}".rstrip(),
            choices=each.choices,
        )
        for each in call.options.values()
    )


async def effect_of_change(call: PageCall, fields: Fields) -> Effect:
    """Show the present values, and who has changed the visibility timeout in the last hour."""
    name = one(fields, "queue")
    queue: dict[str, Any] = {**await call.read(QueueJson, {"queue": name})}
    entries = await read_changes(call)
    return Effect(
        "They hold for later sends and receives. Hidden messages stay hidden as they are.",
        inputs=tuple(
            replace(
                each, value=str(queue[each.name] or 0),
                hint=f"Now {_show_present(each.name, queue[each.name])}. {each.hint}".rstrip(),
            )
            for each in attribute_inputs(SET)
        ),
        lines=tuple(say_changes(entries, [name], time.time() * 1000)),
    )  # fmt: skip


def _show_present(name: str, value: Any) -> str:
    """Return the stored value of an attribute, for the form that changes it."""
    attribute = SET.options[name]
    if attribute.choices:
        return f"they {dict(attribute.choices)[value or attribute.default]}"
    if value is None:
        return "never" if attribute.kind is ValueKind.SECONDS else "none"
    if value == attribute.unlimited:
        return "unlimited"
    return f"{show_number(value)} s" if attribute.kind is ValueKind.SECONDS else show_number(value)
