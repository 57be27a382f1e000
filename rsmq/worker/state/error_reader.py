"""
Reads exceptions of handlers, which may raise whatever is read of them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rsmq.errors import BodyNotDecodable
from rsmq.webhooks.answers import PushFailed
from rsmq.wire.limits import check_duration
from rsmq.worker.failure import FailureKind, HandlerFailure
from rsmq.worker.outcome import (
    DeadLetter,
    Defer,
    DeferredTooOften,
    Discard,
    HandlerStopped,
    HandlerTimedOut,
    Policy,
    RemoteError,
    Retry,
    TookItsProcessDown,
    Unroutable,
    Withdrawn,
)

T = TypeVar("T")

#: The classes that decide an outcome, in the order of their precedence.
_KINDS: tuple[tuple[FailureKind, type[BaseException]], ...] = (
    ("withdrawn", Withdrawn),
    ("discard", Discard),
    ("unroutable", Unroutable),
    ("dead_letter", DeadLetter),
    ("not_decodable", BodyNotDecodable),
    ("took_process_down", TookItsProcessDown),
    ("deferred_too_often", DeferredTooOften),
    ("defer", Defer),
    ("retry", Retry),
    ("timed_out", HandlerTimedOut),
    ("stopped", HandlerStopped),
)
#: The classes whose exceptions are restored from their text alone.
_SAME_CLASS: Mapping[str, type[BaseException]] = {
    name: each for name, each in _KINDS if name not in {"not_decodable", "defer", "retry"}
}
#: The kinds that never become dead letters, whose reasons have the traceback.
_WITHOUT_TRACEBACK: frozenset[FailureKind] = frozenset({"defer", "discard", "stopped", "withdrawn"})
_MAX_CHARACTERS = 65_536
_MAX_NOTES = 20
_MAX_INNER_ERRORS = 20
_MAX_NOTE_CHARACTERS = 1000

# An exception can't replace these attributes.
_name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
_inner_errors_of: Callable[[Any], tuple[BaseException, ...]]
_inner_errors_of = BaseExceptionGroup.__dict__["exceptions"].__get__
_traceback_of = BaseException.__dict__["__traceback__"].__get__


class RemoteTraceback(Exception):
    """The traceback of an exception that can't be shown itself, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def read_error(error: BaseException, policy: Policy | None = None) -> HandlerFailure:
    """
    Return an exception of a handler as plain data.

    It raises nothing, although the methods and attributes of an exception may raise anything, also
    exceptions that are not an ``Exception``.

    Args:
        policy: the listener's policy, whose ``no_retry`` and ``retry_only`` are applied here, where
            the class exists; None if the outcome is decided already.
    """
    try:
        return _Reader(error).read(policy)
    except BaseException:  # noqa: BLE001 - such as HandlerTimedOut of a signal handler
        name = _name_of(type(error))
        return HandlerFailure("failed", RemoteError.create(name, "", is_final=False), name, "")


class _Reader:
    """
    Reads one exception.

    Attributes:
        has_failed: whether something could not be read.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.has_failed = False

    def _get(self, read: Callable[[BaseException], T], default: T) -> T:
        try:
            return read(self._error)
        except BaseException:  # noqa: BLE001 - see read_error
            self.has_failed = True
            return default

    def read(self, policy: Policy | None) -> HandlerFailure:
        """See ``read_error``."""
        error, kind = self._error, _find_kind(type(self._error))
        name, text = _name_of(type(error)), self.text(kind)
        notes: tuple[str, ...] = self._get(_read_notes, ())
        after, is_final, cause_name, cause_text = None, False, name, text
        fields: Mapping[str, Any] = {}
        if kind in {"defer", "retry"}:
            after = self._get(_read_after, None)
        elif kind == "not_decodable":
            cause = self._get(_read_cause, None)
            if cause is not None:
                cause_name, cause_text = _name_of(type(cause)), _Reader(cause).text("failed")
        elif kind in {"failed", "timed_out"}:
            is_final = self._get(lambda each: _is_final(each, policy), False)
            if issubclass(type(error), PushFailed):
                fields = self._get(_read_fields, fields)
        trace = "" if kind in _WITHOUT_TRACEBACK else self._get(_read_traceback, "")
        self._get(_check_reading, None)
        failure = HandlerFailure(
            kind, error, name, text, notes, after, is_final, cause_name, cause_text, trace, fields
        )
        return self._replace_error(failure) if self.has_failed else failure

    def text(self, kind: FailureKind) -> str:
        """Return the text of the exception; '' if it has none."""
        text: Any = self._get(_read_summary if kind == "not_decodable" else str, "")
        if type(text) is str:
            if kind == "failed" and issubclass(type(self._error), BaseExceptionGroup):
                text = f"{text}: {'; '.join(self._get(_read_inner_errors, []))}"
            return str(text)[:_MAX_CHARACTERS]
        self.has_failed = True  # the text has a class of its own
        return str.__getitem__(text, slice(_MAX_CHARACTERS)) if issubclass(type(text), str) else ""

    def _replace_error(self, failure: HandlerFailure) -> HandlerFailure:
        """Return the failure with an exception that can be read."""
        if not failure.traceback:
            frames = "".join(traceback.format_tb(_traceback_of(self._error)))
            text = f"Traceback (most recent call last):\n{frames}{failure.name}: {failure.text}\n"
            failure = replace(failure, traceback=text[-_MAX_CHARACTERS:])
        error = make_error(
            failure.kind, failure.name, failure.text, after=failure.after, is_final=failure.is_final
        )
        add_origin(error, failure.traceback, failure.notes)
        return replace(failure, error=error)


def _find_kind(error_class: type[BaseException]) -> FailureKind:
    # Not isinstance, which also reads the attribute __class__ of the exception.
    return next((name for name, each in _KINDS if issubclass(error_class, each)), "failed")


def _read_summary(error: Any) -> str:
    return error.summary  # type: ignore[no-any-return]


def _read_after(error: Any) -> float | None:
    return None if error.after is None else check_duration("after", error.after)


def _read_cause(error: BaseException) -> BaseException | None:
    return error.__cause__


def _read_notes(error: BaseException) -> tuple[str, ...]:
    try:
        notes = object.__getattribute__(error, "__notes__")
    except AttributeError:
        return ()
    if not isinstance(notes, list | tuple):
        return ()
    return tuple(str(note)[:_MAX_NOTE_CHARACTERS] for note in notes[:_MAX_NOTES])


def _read_fields(error: Any) -> Mapping[str, Any]:
    return dict(error.dead_letter_fields)


def _read_inner_errors(group: BaseException) -> list[str]:
    """Return names and texts of the errors of a group, and of the groups in it."""
    inner = _inner_errors_of(group)[:_MAX_INNER_ERRORS]
    shown = [f"{_name_of(type(each))}: {_Reader(each).text('failed')}" for each in inner]
    return [text.removesuffix(": ") for text in shown]


def _read_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_MAX_CHARACTERS:]


def _check_reading(error: BaseException) -> None:
    """Read what loggers and hooks read, to find out whether it raises."""
    _ = error.__class__, error.__cause__, error.__context__, error.__suppress_context__
    _ = error.__traceback__, error.args, getattr(error, "__notes__", None)
    _ = bool(error), repr(error), f"{error}"  # not hash or ==: dataclasses have none or their own
    isinstance(error, Retry)


def _is_final(error: BaseException, policy: Policy | None) -> bool:
    if issubclass(type(error), RemoteError):
        return bool(error.is_final)  # type: ignore[attr-defined]
    return policy is not None and not policy.is_retried(error)


def make_error(
    kind: str, name: str, text: str, *, after: float | None, is_final: bool
) -> BaseException:
    """
    Return an exception that has the outcome of another one.

    Args:
        kind: the class that decides the outcome; not "not_decodable".
        name: the name of the class of the other exception.
        after: see ``HandlerFailure``.
        is_final: see ``HandlerFailure``.
    """
    if kind == "retry":
        return Retry(text, after=after)
    if kind == "defer":
        return Defer(text, after=after)
    if kind in _SAME_CLASS:
        return _SAME_CLASS[kind](text)
    return RemoteError.create(name, text, is_final=is_final)


def add_origin(error: BaseException, trace: str, notes: Any) -> None:
    """Add the traceback and the notes of the exception that another one replaces."""
    if trace:
        error.__cause__ = RemoteTraceback(trace)
    for note in notes:
        error.add_note(note)
