"""
The tasks of a queue, and the listener that calls them.

Tasks with the same options and of the same kind share a listener. If there are several such groups,
the listener of the queue receives, and has a part for each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from rsmq.codecs import JSON
from rsmq.errors import InvalidFormat, show
from rsmq.tasks.body import make_route
from rsmq.tasks.follow import EncodeResult, FollowInWorker
from rsmq.tasks.task import DeclaredTask
from rsmq.wire.jobs import MIN_RESULT_TTL_SECONDS
from rsmq.worker.configuration import Configuration
from rsmq.worker.listener import Handlers, Listener, ListenerOptions, PolicyOptions, make_listener

_OF_TASKS = PolicyOptions.__annotations__.keys()
AnyTask = DeclaredTask[..., Any, Any]


@dataclass
class DeclaredQueue:
    """
    A queue with its tasks by name.

    Attributes:
        name: its name.
        options: those of ``Tasks.queue``.
        tasks: its tasks.
    """

    name: str
    options: ListenerOptions = field(default_factory=ListenerOptions)
    tasks: dict[str, AnyTask] = field(default_factory=dict)

    def prepare_tasks(self) -> None:
        """Let the tasks know their levels, and whether they are tracked."""
        levels = frozenset(self._shared_options().get("levels") or ())
        for task in self.tasks.values():
            task.levels, task.is_tracked = levels, _is_tracked(self._policy_of(task))

    def add_to(self, worker: Configuration[Any], encode_result: EncodeResult) -> None:
        """
        Add the listener of the queue to a worker.

        Raises:
            InvalidFormat, InvalidValue: an option is invalid, or two tasks disagree.
        """
        shared = self._shared_options()
        follow = FollowInWorker(worker.rsmq.namespace, encode_result)
        groups: list[tuple[ListenerOptions, list[AnyTask]]] = []
        for task in self.tasks.values():
            policy = self._policy_of(task)
            for options, of_group in groups:
                if options == policy and of_group[0].is_async == task.is_async:
                    of_group.append(task)
                    break
            else:
                groups.append((policy, [task]))
        is_tracked = any(_is_tracked(options) for options, _ in groups)
        parts = [
            self._make_listener({**shared, **_with_record(options, is_tracked)}, of_group, follow)
            for options, of_group in groups
        ]
        listener = parts[0]
        if len(parts) > 1:
            listener = self._join(parts, {**shared, **self.options, "track": is_tracked})
        worker.add_listener(listener, shared.get("levels"))

    def _policy_of(self, task: AnyTask) -> ListenerOptions:
        """Return the options that belong to a task, with the defaults of its queue."""
        given = {**self.options, **task.passed}
        return cast("ListenerOptions", {name: given[name] for name in given if name in _OF_TASKS})

    def _shared_options(self) -> ListenerOptions:
        """
        Return the options that belong to the queue.

        Raises:
            InvalidFormat: a task disagrees with another one, or with ``Tasks.queue``.
        """
        found: dict[str, Any] = {}
        for owner, options in (
            (f"tasks.queue({self.name!r})", self.options),
            *((each.name, each.passed) for each in self.tasks.values()),
        ):
            for name, value in options.items():
                if name not in _OF_TASKS and found.setdefault(name, (owner, value))[1] != value:
                    other = found[name][0]
                    raise InvalidFormat(
                        "options",
                        value=show({name: value}),
                        hint=f"{name} belongs to queue {self.name!r}, and {other} has another one "
                        f"than {owner}. Pass it to tasks.queue({self.name!r}), or another queue.",
                    )
        return cast("ListenerOptions", {name: value for name, (_, value) in found.items()})

    def _make_listener(
        self, options: ListenerOptions, tasks: list[AnyTask], follow: FollowInWorker
    ) -> Listener:
        names = dict.fromkeys(each.name for each in tasks)
        handlers = Handlers(make_route(self.name, names), process=options.get("process", False))
        for task in tasks:
            handlers.add(task.name, task.make_handler(follow))
        return make_listener(self.name, handlers, codec=JSON, **self._with_defaults(options))

    def _join(self, parts: list[Listener], options: ListenerOptions) -> Listener:
        """Return a listener that receives for others, and whose own handlers are never called."""
        route = make_route(self.name, self.tasks)
        places = {name: at for at, part in enumerate(parts) for name in part.handlers.by_type}

        def find_part(raw: bytes) -> int | None:
            try:
                return places[route(JSON.decode(raw))[0] or ""]
            except Exception:  # noqa: BLE001 - no task accepts it, so it is a dead letter
                return None

        handlers = Handlers(
            route,
            {name: each for part in parts for name, each in part.handlers.by_type.items()},
            is_async=all(part.handlers.is_async for part in parts),
            process=all(part.process for part in parts),
        )
        main = make_listener(self.name, handlers, codec=JSON, **self._with_defaults(options))
        return replace(main, parts=tuple(parts), find_part=find_part)

    def _with_defaults(self, options: ListenerOptions) -> ListenerOptions:
        """Return the options of a listener, with the defaults of tasks."""
        chosen: ListenerOptions = {"create": True, **options}
        if not (
            chosen.get("dead_letter_queue") or chosen.get("drop") or chosen.get("retry_forever")
        ):
            chosen["dead_letter_queue"] = f"{self.name}-dead"
        return chosen


def _is_tracked(options: Mapping[str, Any]) -> bool:
    return bool(options.get("track")) or options.get("result_ttl") is not None


def _with_record(options: ListenerOptions, is_tracked: bool) -> ListenerOptions:  # noqa: FBT001 - of the queue
    """
    Return the options of a task, whose messages have records if the receive makes some.

    The record of a task that is not tracked ends a second after its message.
    """
    if not is_tracked or _is_tracked(options):
        return options
    return {**options, "result_ttl": MIN_RESULT_TTL_SECONDS}
