"""A codec whose store has an object that no message has, for ``--codec``."""

from __future__ import annotations

from collections.abc import Iterator

from obstore.store import MemoryStore

from rsmq import JSON
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Stored


class OneObject(ObjectStore):
    def list(self, namespace: bytes) -> Iterator[tuple[bytes, str]]:
        yield namespace + b":q", "0" * 32


codec = Stored(JSON, store=OneObject(MemoryStore()))
