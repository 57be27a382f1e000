"""
The fields of answers, from the types of their contents.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from rsmq.web.fields import Field, Shape
from rsmq.web.send_fields import list_attributes, list_shown_facts

_SHAPES = {
    str: Shape.TEXT, int: Shape.WHOLE, float: Shape.NUMBER, bool: Shape.FLAG, Any: Shape.ANY,
}  # fmt: skip


def fields_of(answer: type) -> tuple[Field, ...]:
    """
    Return the fields of an answer.

    Args:
        answer: a TypedDict, in whose annotations are the texts of its keys, as in
            ``Annotated[int, "Messages in the queue."]``, and after a text the rule, or the kind of
            a time. A key without a text is an attribute of a queue or a fact of a message, which
            its table describes.
    """
    notes = get_type_hints(answer, include_extras=True)
    table = list_shown_facts() if "limit_key" in notes else list_attributes()
    described = {each.name: each for each in table}
    return tuple(
        _field_of(name, form, *notes[name].__metadata__)
        if hasattr(notes[name], "__metadata__")
        else described[name]
        for name, form in get_type_hints(answer).items()
    )


def _field_of(name: str, form: Any, text: str, *notes: Shape | dict[str, Any]) -> Field:
    if get_origin(form) in {Union, UnionType}:
        form = get_args(form)[0]  # the other one is None
    found: Any = {type(each): each for each in notes}
    kind = found.get(Shape) or _SHAPES.get(form, Shape.OBJECT)
    if get_origin(form) is list:
        [form] = get_args(form)
        is_object = is_typeddict(form) or get_origin(form) is dict
        kind = Shape.OBJECTS if is_object else Shape.TEXTS if form is str else Shape.NUMBERS
    items = fields_of(form) if is_typeddict(form) else ()
    return Field(name, kind, text, rule=found.get(dict, {}), items=items)
