"""A server of a migration, with a client of redis-py for its raw keys."""

from __future__ import annotations

from functools import cached_property

import redis

from rsmq import migrate


class Server(migrate.Server):
    """A server of a migration; see the module."""

    @cached_property
    def raw(self):
        return redis.Redis.from_url(self.rsmq.origin.url, protocol=2)

    def close(self):
        super().close()
        if "raw" in vars(self):
            self.raw.close()
