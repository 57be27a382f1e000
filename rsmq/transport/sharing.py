"""
Connections that all clients around one client of redis-py share.

A program may make a client of ours for each request around the same client of redis-py, and close
none of them. So the connections belong to the pool of that client: the last of ours that is closed
closes them, and they end with the pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet, finalize

T = TypeVar("T")


class Sharing(Generic[T]):
    """
    The connections by what they belong to, such as a pool of redis-py.

    They must not refer to it, so that they end with it.
    """

    def __init__(self, end: Callable[[T], object] | None = None) -> None:
        """
        Create it, without connections.

        Args:
            end: ends connections that would stay open although nothing refers to them.
        """
        self._end = end
        self._shared: WeakKeyDictionary[Any, _Shared[T]] = WeakKeyDictionary()
        self._make_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self) -> None:
        self._lock = RLock()  # a signal handler may make or close a client meanwhile

    def join(self, owner: object, make: Callable[[], T]) -> tuple[T, Callable[[], bool]]:
        """
        Return the connections of an owner for one more user, and a function by which it leaves.

        The function returns whether there is no other user, so that the connections are to be
        closed. A user that is forgotten without leaving counts no longer.

        Args:
            owner: what the connections belong to.
            make: makes them, if the owner has none.
        """
        user = _User()
        with self._lock:
            shared = self._shared.get(owner)
            if shared is None:
                connections = make()
                shared = self._shared[owner] = _Shared(connections)
                if self._end is not None:
                    shared.ending = finalize(owner, self._end, connections)
                    shared.ending.atexit = False
            shared.users.add(user)

        def leave() -> bool:
            with self._lock:
                shared.users.discard(user)
                if not shared.users and self._shared.get(owner) is shared:
                    del self._shared[owner]
                    if shared.ending is not None:
                        shared.ending.detach()
                return not shared.users

        return shared.connections, leave


class _Shared(Generic[T]):
    """Connections, those who use them, and what ends them with their owner."""

    def __init__(self, connections: T) -> None:
        self.connections = connections
        self.users: WeakSet[_User] = WeakSet()
        self.ending: finalize[..., Any] | None = None


class _User:
    """One that uses connections, as long as it is referred to."""
