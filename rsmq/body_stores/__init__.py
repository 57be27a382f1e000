"""
Stores of the bodies that are too large for a queue, for ``rsmq.codecs.Stored``.

``ObjectStore`` is a bucket of S3, Google or Azure, or a folder; ``RedisStore`` is a Redis server.
``sweep_bodies`` deletes the objects that no message has.
"""

from __future__ import annotations

from rsmq.body_stores.object_store import ObjectStore
from rsmq.body_stores.redis_store import RedisStore
from rsmq.body_stores.sweep import SweptBodies, sweep_bodies

__all__ = ["ObjectStore", "RedisStore", "SweptBodies", "sweep_bodies"]
