"""
The fields of requests that send and that set attributes of queues, from their tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES, QueueCall
from rsmq.vocabulary.sends import SendCall, ValueKind
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.web.fields import Field, Shape, between, one_of

_SHAPES = {
    ValueKind.SECONDS: Shape.NUMBER,
    ValueKind.TIME: Shape.TIME,
    ValueKind.FLAG: Shape.FLAG,
    ValueKind.WHOLE_NUMBER: Shape.WHOLE,
    ValueKind.RATE: Shape.TEXT,
    ValueKind.LABEL: Shape.TEXT,
    ValueKind.CHOICE: Shape.TEXT,
}


def list_fields(call: SendCall, *, of_message: bool | None = None) -> tuple[Field, ...]:
    """
    Return the fields of a request that sends.

    Args:
        call: the call that it makes.
        of_message: only those that each message of a batch has, or only the others; None is all.
    """
    return tuple(
        Field(each.name, _SHAPES[each.kind], each.describe(), rule=_rule_of(each))
        for each in call.options.values()
        if of_message is None or each.of_message == of_message
    )


def list_attributes(call: QueueCall | None = None) -> tuple[Field, ...]:
    """Return the attributes of a queue that a call sets; without a call, those that it has."""
    attributes = QUEUE_ATTRIBUTES if call is None else call.options.values()
    return tuple(
        Field(each.name, _SHAPES[each.kind], each.text, rule=_rule_of(each)) for each in attributes
    )


def list_shown_facts() -> tuple[Field, ...]:
    """Return the facts of a stored message that answers have."""
    return tuple(Field(each.name, _SHAPES[each.kind], each.text) for each in SHOWN_FACTS)


def _rule_of(option: Any) -> Mapping[str, Any]:
    if option.kind is ValueKind.CHOICE:
        return one_of(*(value for value, _ in option.choices))
    if option.low is None or option.high is None:
        return {}
    if option.kind is ValueKind.LABEL:
        return {"minLength": option.low, "maxLength": option.high}
    return between(option.low, option.high)
