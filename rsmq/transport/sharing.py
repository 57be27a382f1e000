"""
Connections that all clients around one client of redis-py share.

A program may make a client of ours for each request around the same client of redis-py, and close
none of them. So the connections belong to the pool of that client: the last of ours that is closed
closes them, and they end with the pool.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

T = TypeVar("T")


class Sharing(Generic[T]):
    """
    The connections by what they belong to, such as a pool of redis-py.

    They must not refer to it, so that they end with it.
    """

    def __init__(self) -> None:
        self._shared: WeakKeyDictionary[Any, tuple[T, WeakSet[Any]]] = WeakKeyDictionary()
        self._make_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self) -> None:
        self._lock = Lock()

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
                shared = self._shared[owner] = (make(), WeakSet())
            connections, users = shared
            users.add(user)

        def leave() -> bool:
            with self._lock:
                users.discard(user)
                if not users and self._shared.get(owner) is shared:
                    del self._shared[owner]
                return not users

        return connections, leave


class _User:
    """One that uses connections, as long as it is referred to."""
