"""Clients of redis-py whose pool makes the connections, because they override a method."""

from __future__ import annotations

import redis
import redis.asyncio


class LendingRedis(redis.Redis):
    def execute_command(self, *args, **options):
        return super().execute_command(*args, **options)


class LendingAsyncRedis(redis.asyncio.Redis):
    async def execute_command(self, *args, **options):
        return await super().execute_command(*args, **options)
