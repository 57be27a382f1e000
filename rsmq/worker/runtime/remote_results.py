"""
The result of a call in a child process, as values of msgpack. Pure.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from rsmq.errors import BodyNotDecodable
from rsmq.wire.limits import check_duration
from rsmq.worker.outcome import (
    DeadLetter,
    Discard,
    HandlerTimedOut,
    Policy,
    RemoteError,
    Retry,
    Unroutable,
    error_text,
)
from rsmq.worker.runtime.lane import Lease

#: The exceptions that have the same class in both processes, by name.
_SAME_CLASS: Mapping[str, type[Exception]] = {
    "discard": Discard,
    "dead_letter": DeadLetter,
    "unroutable": Unroutable,
    "timed_out": HandlerTimedOut,
}
_MAX_CHARACTERS = 65_536


class RemoteTraceback(Exception):
    """The traceback of an exception in a child process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def describe_error(error: BaseException, policy: Policy) -> dict[str, Any]:
    """
    Return the description of an exception of a handler.

    Args:
        error: the exception.
        policy: the listener's policy, whose ``no_retry`` is applied here, where the class exists.
    """
    try:
        described = _describe_outcome(error, policy)
    except Exception as failure:  # noqa: BLE001 - as a Retry whose ``after`` was changed
        described = {
            "kind": "failed",
            "text": f"{error_text(error)} ({type(failure).__name__}: {error_text(failure)})",
            "name": type(error).__name__,
            "is_final": False,
        }
    described["text"] = described["text"][:_MAX_CHARACTERS]
    try:
        described["traceback"] = "".join(traceback.format_exception(error))[-_MAX_CHARACTERS:]
    except Exception:  # noqa: BLE001 - the text of an exception may fail
        described["traceback"] = ""
    try:
        described["notes"] = [str(note) for note in getattr(error, "__notes__", ())]
    except Exception:  # noqa: BLE001 - as above
        described["notes"] = []
    return described


def _describe_outcome(error: BaseException, policy: Policy) -> dict[str, Any]:
    kind = next((name for name, each in _SAME_CLASS.items() if isinstance(error, each)), "failed")
    described: dict[str, Any] = {"kind": kind, "text": error_text(error)}
    if isinstance(error, Retry):
        after = error.after if error.after is None else check_duration("after", error.after)
        described |= {"kind": "retry", "after": after}
    elif isinstance(error, BodyNotDecodable):
        cause = error.__cause__ or error
        described |= {
            "kind": "not_decodable",
            "name": type(cause).__name__,
            "text": error_text(cause),
        }
    elif kind == "failed":
        described["name"] = type(error).__name__
        described["is_final"] = bool(policy.no_retry) and isinstance(error, policy.no_retry)
    return described


def restore_error(described: Mapping[str, Any], queue: str, lease: Lease) -> BaseException:
    """
    Return the exception that ``describe_error`` described.

    Args:
        described: the description.
        queue: the name of the message's queue.
        lease: the message, for an exception about its body.
    """
    kind, text = described["kind"], described["text"]
    error: BaseException
    if kind == "retry":
        error = Retry(text, after=described["after"])
    elif kind == "not_decodable":
        error = BodyNotDecodable(queue, lease.shown_id, lease.raw)
    elif kind in _SAME_CLASS:
        error = _SAME_CLASS[kind](text)
    else:
        error = RemoteError.create(described["name"], text, is_final=described["is_final"])
    origin = error
    if kind == "not_decodable":
        origin = error.__cause__ = RemoteError.create(described["name"], text, is_final=False)
    if described["traceback"]:
        origin.__cause__ = RemoteTraceback(described["traceback"])
    for note in described["notes"]:
        error.add_note(note)
    return error
