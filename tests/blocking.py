"""An asyncio client with blocking methods, so that one test suite runs both clients."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from rsmq.waiting.consuming import AsyncConsumer, AsyncProcessing


class Blocking:
    """An asyncio client whose methods are called without await."""

    def __init__(self, runner: asyncio.Runner, client: Any) -> None:
        self._runner = runner
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name in ("schedules", "trash"):
            return Blocking(self._runner, method)
        if name == "with_reply_timeout":
            return lambda seconds: Blocking(self._runner, method(seconds))
        if name in ("consume", "processing"):
            return lambda *args, **options: _BlockingBlock(self._runner, method(*args, **options))
        if not inspect.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **options: Any) -> Any:
            return await method(*args, **options)

        return lambda *args, **options: self._runner.run(call(*args, **options))


class _BlockingBlock:
    """A context manager of an asyncio client that is used with ``with`` and ``for``."""

    def __init__(self, runner: asyncio.Runner, block: AsyncConsumer | AsyncProcessing) -> None:
        self._runner = runner
        self._block: Any = block

    def __enter__(self) -> Any:
        value = self._runner.run(self._block.__aenter__())
        return self if value is self._block else value

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._block.__aexit__(*error))

    def __iter__(self) -> _BlockingBlock:
        self._block.__aiter__()
        return self

    def __next__(self) -> Any:
        try:
            return self._runner.run(self._block.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
