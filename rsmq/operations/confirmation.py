"""
Confirmation: the copies on replicas and on disk that a call waits for after its script has run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rsmq.errors import InvalidFormat, NotPossible, NotReplicated, show
from rsmq.wire.limits import Seconds, check_duration, check_whole_number, to_seconds

DEFAULT_REPLICA_TIMEOUT = 1.0

_MAX_REPLICAS = 100
_MAX_TIMEOUT_SECONDS = 60
_WAITAOF_VERSION = (7, 2)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """
    The copies that a call waits for.

    Attributes:
        replicas: the number of replicas that must have the changes.
        timeout: how long to wait for them, seconds.
        fsync: whether the primary and these replicas must have written the changes to disk.
    """

    replicas: int
    timeout: float
    fsync: bool

    def command(self, seconds: float) -> tuple[bytes, ...]:
        """
        Return the command that waits for the changes of a connection.

        Args:
            seconds: how long it waits at most.
        """
        milliseconds = b"%d" % max(1, round(seconds * 1000))
        if self.fsync:
            return (b"WAITAOF", b"1", b"%d" % self.replicas, milliseconds)
        return (b"WAIT", b"%d" % self.replicas, milliseconds)

    def missing_from(self, reply: Any) -> str | None:
        """
        Return what a reply to the command lacks, as a text; None if it has all.

        Args:
            reply: the reply; an exception if the command failed.
        """
        if isinstance(reply, Exception):
            return f"not confirmed, because the server answered: {reply}"
        on_disk, replicas = reply if self.fsync else (1, reply)
        missing = []
        if replicas < self.replicas:
            where = "written to disk by" if self.fsync else "confirmed by"
            missing.append(f"{where} {replicas} of {self.replicas} replicas")
        if not on_disk:
            missing.append("not written to disk by the primary")
        return " and ".join(missing) or None

    def can_be_confirmed(self, reply: Any) -> bool:
        """
        Return whether the command may be sent again, because a reply to it lacks something.

        A server that rejects the command rejects it again: the user has no right for it, for
        example, or the server is not the primary any more.

        Args:
            reply: the reply; an exception if the command failed.
        """
        return not isinstance(reply, Exception) and self.missing_from(reply) is not None


def check_confirmation(
    min_replicas: object, replica_timeout: Seconds, fsync: object
) -> Confirmation | None:
    """
    Check the copies that a call waits for, and return them; None if it waits for none.

    Args:
        min_replicas: the number of replicas, 0 to 100.
        replica_timeout: seconds, 0.001 to 60.
        fsync: whether the changes must be on disk.

    Raises:
        InvalidValue: min_replicas or replica_timeout is out of range.
        InvalidFormat: fsync is not a bool.
    """
    replicas = check_whole_number("min_replicas", min_replicas, 0, _MAX_REPLICAS)
    timeout = check_duration(
        "replica_timeout", to_seconds(replica_timeout), 0.001, _MAX_TIMEOUT_SECONDS
    )
    if not isinstance(fsync, bool):
        raise InvalidFormat("fsync", value=show(fsync), hint="Pass True or False.")
    return Confirmation(replicas, timeout, fsync) if replicas or fsync else None


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


def raise_unconfirmed(result: Any, confirmation: Confirmation, missing: str) -> None:
    """
    Raise the error of a call that ran, and was not confirmed in time.

    A move or a redrive that found no message has changed nothing: it waited for earlier changes of
    its connection, and has no error.

    Args:
        result: the result of the call.
        confirmation: the copies that it waited for.
        missing: what is missing.
    """
    changes = result[1] if isinstance(result, tuple) else result  # of a step of a redrive
    if not changes:
        return
    raise NotReplicated(result, missing, confirmation.timeout)
