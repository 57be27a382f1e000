"""
The result of a call in a child process, as values of msgpack. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.codecs import make_not_decodable
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.outcome import RemoteError
from rsmq.worker.state.calls import Lease
from rsmq.worker.state.error_reader import add_origin, make_error


def describe_failure(failure: HandlerFailure) -> dict[str, Any]:
    """Return the description of a failure."""
    return {
        "kind": failure.kind,
        "name": failure.cause_name,
        "text": failure.cause_text,
        "after": failure.after,
        "is_final": failure.is_final,
        "traceback": failure.traceback,
        "notes": list(failure.notes),
    }


def restore_error(described: Mapping[str, Any], queue: str, lease: Lease) -> BaseException:
    """
    Return an exception with the outcome of the failure that ``describe_failure`` described.

    Args:
        described: the description.
        queue: the name of the message's queue.
        lease: the message, for an exception about its body.
    """
    kind, name, text = described["kind"], described["name"], described["text"]
    error: BaseException
    if kind == "not_decodable":
        cause = RemoteError.create(name, text, is_final=False)
        add_origin(cause, described["traceback"], ())
        error = make_not_decodable(queue, lease.id, lease.raw, cause)
        add_origin(error, "", described["notes"])
        return error
    error = make_error(kind, name, text, after=described["after"], is_final=described["is_final"])
    add_origin(error, described["traceback"], described["notes"])
    return error
