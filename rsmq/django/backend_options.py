"""
The settings of a backend: its client, its queues, and their checks.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from rsmq._sync.client import RSMQ
from rsmq.codecs import JSON
from rsmq.errors import RSMQError, show
from rsmq.wire.keys import DEFAULT_NS, Namespace
from rsmq.wire.levels import level_queue
from rsmq.worker.listener import Handlers, Listener, make_listener
from rsmq.worker.worker import Worker

#: The levels of each queue: tasks with a priority above and below 0. Higher numbers go first.
LEVELS = {"high": 3, "low": 1}
WEIGHT = 2
#: Django promises ids of results of at most 64 characters. An id has the 32 of the message's id,
#: and the name of the queue with its level.
MAX_QUEUE_CHARACTERS = 26

_DEAD_LETTER_ENDING = "-dead"
_RESERVED_ENDINGS = (*(f"_{level}" for level in LEVELS), _DEAD_LETTER_ENDING)

_CLIENT_OPTIONS = ("url", "ns", "client")
_LISTENER_OPTIONS = (
    "max_retries", "backoff", "drop", "max_runtime", "vt", "result_ttl", "no_retry", "retry_only",
)  # fmt: skip
#: The setting with the options of single tasks, by their paths.
TASK_OPTIONS = "RSMQ_TASK_OPTIONS"
_OPTIONS = (*_CLIENT_OPTIONS, *_LISTENER_OPTIONS)


class Problem(NamedTuple):
    """A fault in the settings of a backend, with the id of Django's check."""

    id: str
    text: str
    hint: str


def find_problems(alias: str, queues: set[str], options: Mapping[str, Any]) -> Iterator[Problem]:
    """
    Return the faults in the settings of a backend. Nothing is sent.

    Args:
        alias: the alias of the backend.
        queues: the names of ``QUEUES``.
        options: its ``OPTIONS``.
    """
    where = f"TASKS[{alias!r}]"
    if not options.get("url"):
        hint = 'Add "OPTIONS": {"url": "redis://127.0.0.1:6379/0"}.'
        yield Problem("rsmq.E001", f"{where} has no OPTIONS['url'].", hint)
    for name in options:
        if name not in _OPTIONS:
            near = difflib.get_close_matches(str(name), _OPTIONS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"They are {', '.join(_OPTIONS)}."
            if not near:
                hint += " Options of redis-py belong into 'client'."
            yield Problem("rsmq.E002", f"{where} has the unknown option {name!r}.", hint)
    for queue in sorted(queues, key=str):
        text = find_fault_of_queue(queue)
        if text is not None:
            yield Problem("rsmq.E003", f"{where}['QUEUES']: {text}", "Choose another name.")
    yield from _find_problems_of_tasks()
    if options.get("url"):
        try:
            client = _make_client(options)
        except (RSMQError, TypeError, ValueError) as error:
            hint = "See 'url', 'ns' and 'client' in its OPTIONS."
            yield Problem("rsmq.E004", f"{where}: {error}", hint)
            return
        with client:
            try:
                add_listener(Worker(client), "default", options, lambda _body: None)
            except (RSMQError, TypeError, ValueError) as error:
                hint = f"The options of its worker, and in {TASK_OPTIONS} of a task, are "
                hint += f"{', '.join(_LISTENER_OPTIONS)}."
                yield Problem("rsmq.E005", f"{where}: {error}", hint)


def _find_problems_of_tasks() -> Iterator[Problem]:
    for path, own in task_options().items():
        for name in own:
            if name not in _LISTENER_OPTIONS:
                text = f"{TASK_OPTIONS}[{path!r}] has the unknown option {name!r}."
                hint = f"The options of a task are {', '.join(_LISTENER_OPTIONS)}."
                yield Problem("rsmq.E007", text, hint)


def find_fault_of_queue(queue: str) -> str | None:
    """Return why a queue can't have this name; None if it can."""
    try:
        Namespace().queue(queue)
    except RSMQError as error:
        return str(error)
    if len(str(queue)) > MAX_QUEUE_CHARACTERS:
        return (
            f"{show(queue)} has more than {MAX_QUEUE_CHARACTERS} characters, and the id of a "
            "result, which contains it, may have 64."
        )
    if str(queue).endswith(_RESERVED_ENDINGS):
        return (
            f"{show(queue)} ends with {', '.join(_RESERVED_ENDINGS[:-1])} or "
            f"{_RESERVED_ENDINGS[-1]}, as the levels and dead letters of other queues."
        )
    return None


def queue_of(queue: str, priority: int) -> str:
    """Return the name of the queue for a priority: the queue itself, or one of its levels."""
    if priority == 0:
        return queue
    return level_queue(queue, "high" if priority > 0 else "low")


def split_level(queue: str) -> str:
    """Return the queue without its level."""
    name, _, level = queue.rpartition("_")
    return name if name and level in LEVELS else queue


def dead_letter_queue(queue: str) -> str:
    """Return the name of the queue for the tasks of a queue that have failed."""
    return f"{queue}{_DEAD_LETTER_ENDING}"


def add_listener(worker: Worker[Any], queue: str, options: Mapping[str, Any], handler: Any) -> None:
    """
    Add a queue and its levels to a worker.

    Raises:
        InvalidFormat, InvalidValue: an option is invalid.
    """
    handlers = Handlers()
    handlers.add("", handler)
    own = task_options()
    places = {path: at for at, path in enumerate(own)}

    def make(task: Mapping[str, Any]) -> Listener:
        given = {**options, **task}
        chosen: dict[str, Any] = {name: given[name] for name in _LISTENER_OPTIONS if name in given}
        if not chosen.get("drop"):
            chosen["dead_letter_queue"] = dead_letter_queue(queue)
        chosen = {"max_retries": 0, **chosen, "track": True, "create": True, "weight": WEIGHT}
        return make_listener(queue, handlers, codec=JSON, **chosen)

    def find_part(raw: bytes) -> int | None:
        try:
            return places.get(JSON.decode(raw)["task"])
        except Exception:  # noqa: BLE001 - it is the call of no task, as its handler finds
            return None

    parts = tuple(make(each) for each in own.values())
    worker.add_listener(replace(make({}), parts=parts, find_part=find_part), LEVELS)


def task_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the options of single tasks: ``RSMQ_TASK_OPTIONS`` of the settings, by path."""
    found: Mapping[str, Mapping[str, Any]] = getattr(settings, TASK_OPTIONS, {})
    return found


def _make_client(options: Mapping[str, Any]) -> RSMQ[Any]:
    rest = {"ns": options.get("ns", DEFAULT_NS), "codec": JSON, **options.get("client", {})}
    return RSMQ.from_url(options["url"], **rest)


#: The client of each backend, with the options that it was made from. Django makes a backend for
#: each thread, and they share the client.
_clients: dict[str, tuple[Mapping[str, Any], RSMQ[Any]]] = {}
_lock = threading.Lock()


def get_client(alias: str, queues: set[str], options: Mapping[str, Any]) -> RSMQ[Any]:
    """
    Return the client of a backend, which all threads share.

    Raises:
        ImproperlyConfigured: the settings have a fault.
    """
    with _lock:
        stored, client = _clients.get(alias, (None, None))
        if client is not None and stored == options:
            return client
        for problem in find_problems(alias, queues, options):
            raise ImproperlyConfigured(f"{problem.text} {problem.hint} ({problem.id})")
        if client is not None:
            client.close()  # the settings have changed, as tests do
        client = _make_client(options)
        _clients[alias] = dict(options), client
        return client
