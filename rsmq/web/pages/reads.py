"""
Answers of the API for pages, shared by all pages of the process for a moment.

So a hundred open pages cost Redis what one costs. If Redis is away, a page shows the last answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.web.api import Api, ApiCaller
from rsmq.web.fields import Refused
from rsmq.web.problems import describe
from rsmq.web.routes import PATHS

#: Seconds between two looks of a page, while Redis answers within ``_SLOW_SECONDS``.
REFRESH_SECONDS = 2.0
_MAX_REFRESH_SECONDS = 60.0
_SLOW_SECONDS = 0.1
#: The share of that time for which an answer is used again.
_SHARE = 0.75
#: For how long an answer is used again that says what changes seldom.
_LASTING_SECONDS = 60.0
_MAX_ANSWERS = 300
_UNAVAILABLE = 503
#: The field of the begin of a history.
_BEGIN = "from"


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """
    The content of an answer.

    Attributes:
        read_at: the monotonic time at which it was read.
        tried_at: the monotonic time of the last try; it is later only if Redis did not answer.
        is_stale: whether Redis did not answer the last time, so that it is an older one.
    """

    content: Any
    read_at: float
    tried_at: float
    is_stale: bool = False


class SharedReads:
    """
    The last answers.

    Attributes:
        interval: seconds until a page should look again; it doubles while Redis answers slowly.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._answers: OrderedDict[Hashable, SharedAnswer] = OrderedDict()
        self._running: dict[Hashable, asyncio.Task[SharedAnswer]] = {}
        self._valid_from = 0.0
        self.interval = REFRESH_SECONDS

    async def get(
        self,
        caller: ApiCaller,
        path: str,
        names: Mapping[str, str],
        query: Mapping[str, str],
        *,
        is_lasting: bool = False,
    ) -> SharedAnswer:
        """
        Return the answer of an entry: the one that was just read for callers with the same rights.

        Args:
            is_lasting: whether an answer of the last minute will do, unless Redis was away then.

        Raises:
            Refused, RSMQError: as the entry raises it.
        """
        key = _key_of(caller, path, names, query)
        answer = self._answers.get(key)
        if answer is not None:
            oldest = self._oldest(is_lasting=is_lasting and not answer.is_stale)
            if answer.tried_at >= oldest:
                return answer
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._read(key, caller, path, names, query))
            self._running[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        # A client that leaves does not take the answer away from others.
        return await asyncio.shield(task)

    def _oldest(self, *, is_lasting: bool) -> float:
        seconds = _LASTING_SECONDS if is_lasting else self.interval * _SHARE
        return max(time.monotonic() - seconds, self._valid_from)

    def _forget(self, key: Hashable, task: asyncio.Task[SharedAnswer]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # the waiting call has it

    def forget_all(self) -> None:
        """Let the next pages read again, after a change."""
        self._valid_from = time.monotonic()

    async def _read(
        self,
        key: Hashable,
        caller: ApiCaller,
        path: str,
        names: Mapping[str, str],
        query: Mapping[str, str],
    ) -> SharedAnswer:
        begin = time.monotonic()
        try:
            answer = await self._api.call(caller, "GET", path, names, query=query.items())
        except (Refused, RSMQError, RedisError, OSError) as error:
            last = self._answers.get(key)
            if last is None or describe(error, may_repeat=True).status != _UNAVAILABLE:
                raise
            # Others don't wait for Redis again at once.
            last = replace(last, is_stale=True, tried_at=time.monotonic())
            self._answers[key] = last
            return last
        now = time.monotonic()
        if not _is_paced(answer.content):
            self._note_time(now - begin)
        shared = SharedAnswer(answer.content, begin, begin)
        self._answers[key] = shared
        self._answers.move_to_end(key)
        while len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)
        return shared

    def _note_time(self, seconds: float) -> None:
        if seconds > _SLOW_SECONDS:
            self.interval = min(self.interval * 2, _MAX_REFRESH_SECONDS)
        else:
            self.interval = max(self.interval / 2, REFRESH_SECONDS)


def _is_paced(content: Any) -> bool:
    """Return whether a read was a walk, which waits between its steps: its time says nothing."""
    return isinstance(content, dict) and "scanned" in content


def _key_of(
    caller: ApiCaller, path: str, names: Mapping[str, str], query: Mapping[str, str]
) -> Hashable:
    who = caller.principal
    rights = (who.scopes, who.patterns, who.redact)
    # The begin of a history moves on, and the last answer is shown also if Redis is away then.
    fields = ((name, value) for name, value in query.items() if name != _BEGIN)
    return rights, path, tuple(sorted(names.items())), tuple(sorted(fields))


@dataclass(slots=True)
class PageReads:
    """
    The reads of one page.

    Attributes:
        ages: the ages in seconds of the answers that are old, because Redis did not answer.
    """

    shared: SharedReads
    caller: ApiCaller
    ages: list[float] = field(default_factory=list)

    async def __call__(
        self, answer: type | str, names: Mapping[str, str] | None = None, /, **query: object
    ) -> Any:
        """Read an entry, as ``Read`` says."""
        return await self._read(_path_of(answer), names, query, is_lasting=False)

    async def read_lasting(
        self, answer: type | str, names: Mapping[str, str] | None = None, /, **query: object
    ) -> Any:
        """Read an entry, or take its answer of the last minute, unless an action was run since."""
        return await self._read(_path_of(answer), names, query, is_lasting=True)

    async def _read(
        self,
        path: str,
        names: Mapping[str, str] | None,
        query: Mapping[str, object],
        *,
        is_lasting: bool,
    ) -> Any:
        answer = await self.shared.get(
            self.caller, path, names or {}, _texts_of(query), is_lasting=is_lasting
        )
        if answer.is_stale:
            self.ages.append(time.monotonic() - answer.read_at)
        return answer.content


@dataclass(frozen=True, slots=True)
class NewReads:
    """The reads of a page that confirms an action: no answer is an older one."""

    api: Api
    caller: ApiCaller

    async def __call__(
        self, answer: type | str, names: Mapping[str, str] | None = None, /, **query: object
    ) -> Any:
        """Read an entry, as ``Read`` says; an error of Redis is raised."""
        texts = _texts_of(query)
        path = _path_of(answer)
        found = await self.api.call(self.caller, "GET", path, names or {}, query=texts.items())
        return found.content


def _path_of(answer: type | str) -> str:
    return answer if isinstance(answer, str) else PATHS[answer]


def _texts_of(query: Mapping[str, object]) -> dict[str, str]:
    return {name: _text_of(value) for name, value in query.items() if value is not None}


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
