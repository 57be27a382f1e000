"""An asyncio client with blocking methods, so that one test suite runs both clients."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


class Blocking:
    """An asyncio client whose methods are called without await."""

    def __init__(self, runner: asyncio.Runner, client: Any) -> None:
        self._runner = runner
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **options: Any) -> Any:
            return await method(*args, **options)

        return lambda *args, **options: self._runner.run(call(*args, **options))
