"""
The fields of requests, from the tables of calls, of sends and of the attributes of queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rsmq.vocabulary.call_arguments import CallArgument
from rsmq.vocabulary.calls import BY_NAME
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


def list_arguments(name: str) -> tuple[Field, ...]:
    """Return the fields for the arguments of a method, in the order of its row."""
    return tuple(_make_field(each) for each in BY_NAME[name].arguments if each.field is not None)


def _make_field(each: CallArgument) -> Field:
    default = each.default if each.http_default is None else each.http_default
    high = each.high if each.http_high is None else each.http_high
    unset = each.unset
    if default is not None:
        unset = default if isinstance(default, str) else f"{default:,}"
    text = f"{each.describe(str, unset, high)} {each.http_detail}".rstrip()
    rule = _rule_of(replace(each, high=high))
    if each.kind is ValueKind.FLAG:
        default = False
    return Field(each.field_name, _SHAPES[each.kind], text, each.is_required, rule, default=default)


def list_attributes(call: QueueCall | None = None, *, all_of: bool = False) -> tuple[Field, ...]:
    """
    Return the attributes of a queue that a call sets; without a call, those that it has.

    Args:
        all_of: whether a request needs all of them.
    """
    attributes = QUEUE_ATTRIBUTES if call is None else call.options.values()
    return tuple(
        Field(each.name, _SHAPES[each.kind], each.text, all_of, _rule_of(each))
        for each in attributes
    )


def list_shown_facts() -> tuple[Field, ...]:
    """Return the facts of a stored message that answers have."""
    return tuple(Field(each.name, _SHAPES[each.kind], each.text) for each in SHOWN_FACTS)


def _rule_of(option: Any) -> Mapping[str, Any]:
    if option.kind is ValueKind.CHOICE:
        return one_of(*(each if isinstance(each, str) else each[0] for each in option.choices))
    if option.low is None or option.high is None:
        return {}
    if option.kind is ValueKind.LABEL:
        return {"minLength": option.low, "maxLength": option.high}
    return between(option.low, option.high)
