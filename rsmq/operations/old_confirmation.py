"""
The arguments ``min_replicas``, ``replica_timeout`` and ``fsync``, which ``confirm`` replaces.

They are accepted for one version. Then this module is deleted, with ``**old`` of the clients.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from rsmq.errors import InvalidFormat, show
from rsmq.misuse import UnexpectedArgument
from rsmq.operations.confirmation import Confirm, copies_of

if TYPE_CHECKING:
    from datetime import timedelta

_NEW_NAMES = {"min_replicas": "replicas", "replica_timeout": "timeout", "fsync": "fsync"}


class OldConfirmation(TypedDict, total=False):
    """The arguments, for type checkers and editors. None uses the client's."""

    min_replicas: int | None
    replica_timeout: float | timedelta | None
    fsync: bool | None


def take_old(options: dict[str, Any]) -> OldConfirmation:
    """Remove the old arguments from the options of a connection, and return them."""
    old: Any = {name: options.pop(name) for name in _NEW_NAMES if name in options}
    taken: OldConfirmation = old
    return taken


def choose_confirm(
    confirm: Confirm | None, old: OldConfirmation, default: Confirm | None
) -> Confirm:
    """
    Return the copies that a client or a call waits for.

    Args:
        confirm: the argument of that name.
        old: the other keyword arguments: those that it replaces, or wrong ones.
        default: the copies of the client, for a call; None for a constructor.

    Raises:
        InvalidFormat: confirm is not a Confirm, or is passed together with an old argument.
        InvalidValue: an old argument is out of range.
        UnexpectedArgument: there are other arguments.
    """
    if not old:
        if confirm is None:
            return default or Confirm()
        if not isinstance(confirm, Confirm):
            raise InvalidFormat("confirm", value=show(confirm), hint="Pass Confirm(replicas=1).")
        return confirm
    for name in old:
        if name not in _NEW_NAMES:
            # The constructors call this themselves, the other methods through _confirm_for.
            method = inspect.stack(0)[1 if default is None else 2].frame.f_code.co_qualname
            raise UnexpectedArgument(f"{method}() got an unexpected keyword argument {name!r}")
    names = " and ".join(old)
    if confirm is not None:
        raise InvalidFormat("confirm", value=show(confirm), hint=f"Pass it without {names}.")
    changed: dict[str, Any] = {
        _NEW_NAMES[name]: value for name, value in old.items() if value is not None
    }
    chosen = replace(default or Confirm(), **changed)
    if default is not None and copies_of(chosen) is None and set(changed) == {"timeout"}:
        raise InvalidFormat(
            "replica_timeout", value=changed["timeout"], hint="It needs min_replicas or fsync."
        )
    _warn(f"{names} will be removed. Pass confirm={chosen}")
    return chosen


def _warn(text: str) -> None:
    """Warn at the line outside of this package that made the call."""
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").startswith("rsmq."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DeprecationWarning, stacklevel=level)
