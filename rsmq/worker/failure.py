"""
The failure of a message as plain data, so that no thread but the handler's reads the exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

#: The class of this library that decides the outcome of a failure; "failed" stands for all others.
FailureKind: TypeAlias = Literal[
    "cancelled", "dead_letter", "defer", "deferred_too_often", "discard", "failed",
    "not_decodable", "retry", "stopped", "timed_out", "took_process_down", "unroutable",
    "withdrawn",
]  # fmt: skip

#: How much of an exception's text a line contains.
_MAX_TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True, eq=False)
class HandlerFailure:
    """
    The exception of a handler as plain data.

    Attributes:
        kind: the class that decides the outcome; "cancelled" for every exception after the cancel
            of the job.
        error: the exception, for hooks. If it can't be read safely, it is replaced by one of a
            class with the same name, with the same text.
        name: the name of its class.
        text: its text; '' if it has none.
        after: of "retry" and "defer": the requested pause, seconds; None is the listener's
            back-off.
        is_final: whether the listener's ``no_retry`` names its class.
        cause_name: of "not_decodable": the name of the class of the codec's error, else ``name``.
        cause_text: of "not_decodable": the text of the codec's error, else ``text``.
        traceback: its traceback, as text; '' for kinds that never become dead letters.
        fields: the fields of the reason of a dead letter that differ from those of other failures.
        context: the context variables with which it was raised, for hooks.
    """

    kind: FailureKind
    error: BaseException
    name: str
    text: str
    notes: Sequence[str] = ()
    after: float | None = None
    is_final: bool = False
    cause_name: str = ""
    cause_text: str = ""
    traceback: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    context: Context = field(default_factory=copy_context)


def summarize(failure: HandlerFailure) -> str:
    """Return a failure as one line."""
    text = " ".join(failure.text.split())
    text = text if len(text) <= _MAX_TEXT_CHARACTERS else f"{text[:_MAX_TEXT_CHARACTERS]}…"
    notes = " ".join(failure.notes)
    if notes:
        text += f" ({notes})"
    return f"{failure.name}: {text}" if text else failure.name
