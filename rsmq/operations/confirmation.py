"""
Confirmation: the copies on replicas and on disk that a call waits for after its script has run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rsmq.errors import InvalidFormat, NotPossible, NotReplicated, show
from rsmq.wire.limits import check_duration, check_whole_number, to_seconds

if TYPE_CHECKING:
    from datetime import timedelta

_DEFAULT_TIMEOUT_SECONDS = 1.0
_MAX_REPLICAS = 100
_MAX_TIMEOUT_SECONDS = 60
_WAITAOF_VERSION = (7, 2)


@dataclass(frozen=True, slots=True, init=False)
class Confirm:
    """
    The copies of its changes that a call waits for; without them in time it raises NotReplicated.

    ``Confirm()`` waits for none: as the argument of a call, it replaces the copies of the client.

    Attributes:
        replicas: the number of replicas, 0 to 100, that must have confirmed the changes.
        timeout: how long the call waits for them after its script has run: seconds, 0.001 to 60.
        fsync: whether the primary and these replicas must have written the changes to disk
            (needs Redis 7.2 and appendonly yes).
    """

    replicas: int
    timeout: float
    fsync: bool

    def __init__(
        self,
        *,
        replicas: int | None = None,
        timeout: float | timedelta = _DEFAULT_TIMEOUT_SECONDS,
        fsync: bool = False,
    ) -> None:
        """
        Check the values.

        Args:
            replicas: see the class; None is 0.
            timeout: seconds, or a timedelta; see the class.
            fsync: see the class.

        Raises:
            InvalidValue: replicas or timeout is out of range.
            InvalidFormat: fsync is not a bool; or there is a timeout, and nothing to wait for.
        """
        if not isinstance(fsync, bool):
            raise InvalidFormat("fsync", value=show(fsync), hint="Pass True or False.")
        if timeout != _DEFAULT_TIMEOUT_SECONDS and replicas is None and not fsync:
            raise InvalidFormat("timeout", value=timeout, hint="It needs replicas or fsync.")
        values = {
            "replicas": check_whole_number("replicas", replicas or 0, 0, _MAX_REPLICAS),
            "timeout": check_duration("timeout", to_seconds(timeout), 0.001, _MAX_TIMEOUT_SECONDS),
            "fsync": fsync,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the class is frozen


def check_confirm(confirm: Confirm | None) -> Confirm:
    """
    Return the argument ``confirm``, or a Confirm that waits for nothing if it is None.

    Raises:
        InvalidFormat: confirm is not a Confirm.
    """
    if confirm is None:
        return Confirm()
    if not isinstance(confirm, Confirm):
        raise InvalidFormat("confirm", value=show(confirm), hint="Pass Confirm(replicas=1).")
    return confirm


def copies_of(confirm: Confirm) -> Confirm | None:
    """Return the copies to wait for; None if there are none."""
    return confirm if confirm.replicas or confirm.fsync else None


def wait_command(confirm: Confirm, seconds: float) -> tuple[bytes, ...]:
    """Return the command that waits, so many seconds at most, for changes of its connection."""
    milliseconds = b"%d" % max(1, round(seconds * 1000))  # 0 would wait forever
    if confirm.fsync:
        return (b"WAITAOF", b"1", b"%d" % confirm.replicas, milliseconds)
    return (b"WAIT", b"%d" % confirm.replicas, milliseconds)


def missing_copies(confirm: Confirm, reply: Any) -> str | None:
    """
    Return which copies a reply to the command lacks, as a text; None if it has all.

    Args:
        confirm: the copies.
        reply: an exception if the command failed.
    """
    if isinstance(reply, Exception):
        return f"not confirmed, because the server answered: {reply}"
    on_disk, replicas = reply if confirm.fsync else (1, reply)
    missing = []
    if replicas < confirm.replicas:
        where = "written to disk by" if confirm.fsync else "confirmed by"
        missing.append(f"{where} {replicas} of {confirm.replicas} replicas")
    if not on_disk:
        missing.append("not written to disk by the primary")
    return " and ".join(missing) or None


def can_be_confirmed(confirm: Confirm, reply: Any) -> bool:
    """
    Return whether the command may be sent again, because a reply to it lacks copies.

    A server that rejects the command rejects it again: the user has no right for it, for
    example, or the server is not the primary any more.
    """
    return not isinstance(reply, Exception) and missing_copies(confirm, reply) is not None


#: The commands whose replies ``check_disk`` needs.
DISK_COMMANDS = ((b"INFO", b"server"), (b"INFO", b"persistence"))


def check_disk(replies: list[Any]) -> None:
    """
    Check that a server can confirm that changes are on disk.

    Args:
        replies: those to DISK_COMMANDS. A user without the right for INFO gets errors; then nothing
            is checked.

    Raises:
        NotPossible: the server is older than 7.2, or has no append-only file.
    """
    if any(isinstance(reply, Exception) for reply in replies):
        return
    info = dict(
        line.split(":", 1)
        for reply in replies
        for line in bytes(reply).decode().splitlines()
        if ":" in line
    )
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if numbers < _WAITAOF_VERSION:
        raise NotPossible(
            "fsync=True needs Redis 7.2 or later",
            hint=f"This server is {version}. Leave out fsync. Nothing was sent.",
        )
    if info.get("aof_enabled") != "1":
        raise NotPossible(
            "fsync=True needs an append-only file",
            hint="Set appendonly yes on the server, or leave out fsync. Nothing was sent.",
        )


def raise_unconfirmed(result: Any, confirm: Confirm, missing: str) -> None:
    """
    Raise the error of a call that ran, and was not confirmed in time.

    A move or a redrive that found no message has changed nothing: it waited for earlier changes of
    its connection, and has no error.

    Args:
        result: the result of the call.
        confirm: the copies that it waited for.
        missing: what is missing.
    """
    changes = result[1] if isinstance(result, tuple) else result  # of a step of a redrive
    if not changes:
        return
    raise NotReplicated(result, missing, confirm.timeout)
