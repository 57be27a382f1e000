"""
The fields of requests that send, from the options of sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.vocabulary.sends import SendCall, SendOption, ValueKind
from rsmq.web.fields import Field, Shape, between

_SHAPES = {
    ValueKind.SECONDS: Shape.NUMBER,
    ValueKind.TIME: Shape.TIME,
    ValueKind.FLAG: Shape.FLAG,
    ValueKind.WHOLE_NUMBER: Shape.WHOLE,
    ValueKind.RATE: Shape.TEXT,
    ValueKind.LABEL: Shape.TEXT,
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


def _rule_of(option: SendOption) -> Mapping[str, Any]:
    if option.low is None or option.high is None:
        return {}
    if option.kind is ValueKind.LABEL:
        return {"minLength": option.low, "maxLength": option.high}
    return between(option.low, option.high)
