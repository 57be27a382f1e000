"""Calls that are made while the slot of their queues moves, and the raw keys that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.crowd import bodies, ids_in_order


@dataclass(frozen=True)
class Step:
    """
    A call that is made while the slot of its queues moves, and its one right outcome.

    Attributes:
        name: its name.
        prepare: prepares its queues, and returns its state.
        call: makes the call with this state.
        check: checks the result and the raw keys.
    """

    name: str
    prepare: Callable[[Any, Stored], Any]
    call: Callable[[Any, Any], Any]
    check: Callable[[Any, Any, Stored], object]


class Stored:
    """The raw keys of a namespace."""

    def __init__(self, raw, ns):
        self.raw = raw
        self.ns = ns

    def bodies(self, queue):
        """Return the bodies of a queue, sorted."""
        return sorted(bodies(self.raw, self.ns, queue).values())

    def ids(self, queue):
        """Return the ids of a queue, in their order."""
        return ids_in_order(self.raw, self.ns, queue)

    def field(self, queue, name):
        """Return a field of the hash of a queue."""
        return self.raw.hget(f"{self.ns}:{queue}:Q", name)

    def fields(self, name):
        """Return a hash of the namespace."""
        return self.raw.hgetall(f"{self.ns}:{name}")

    def is_listed(self, queue):
        """Return whether the index of queues has a queue."""
        return bool(self.raw.sismember(f"{self.ns}:QUEUES", queue))

    def is_visible(self, queue, id):
        """Return whether a message is visible."""
        seconds, _ = self.raw.time()
        return self.raw.zscore(f"{self.ns}:{queue}", id) <= (seconds + 1) * 1000

    def put_beside(self, queue, hash, fields):
        """Store fields in a hash beside a queue."""
        created = {"": self.field(queue, "created")} if hash in {"unbegun", "retrying"} else {}
        self.raw.hset(f"{self.ns}:{queue}:x:{hash}", mapping=created | fields)

    def beside(self, queue, hash):
        """Return a hash beside a queue, without the field ''."""
        fields = self.fields(f"{queue}:x:{hash}")
        return {name.decode(): value for name, value in fields.items() if name}
