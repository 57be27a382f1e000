"""
Subscribers of queues: the targets of webhooks that are stored in Redis, and change at run time.

A subscriber has a queue of its own, to which each message of the queue is copied: see
``rsmq.push.pusher``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.errors import InvalidFormat, InvalidValue, MissingParameter, SubscriberExists, show
from rsmq.push.addresses import ANY_ADDRESS
from rsmq.push.operations import (
    MAX_SUBSCRIBERS,
    add_subscriber,
    list_subscribers,
    remove_subscriber,
)
from rsmq.push.targets import (
    DEAD_LETTER_SUFFIX,
    check_content_type,
    parse_target,
    redact_url,
    target_field,
)
from rsmq.wire.limits import MAX_RECEIVES, check_whole_number

#: Concurrent pushes of one process to a subscriber, if it is added without a number.
DEFAULT_CONCURRENCY = 8
MAX_CONCURRENCY = 1000
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,159}")
_SECRET_PREFIX = "whsec_"  # noqa: S105 - the beginning of every secret


@dataclass(frozen=True, slots=True)
class Subscriber:
    """
    A subscriber of a queue.

    Attributes:
        queue: the queue that it subscribes to.
        name: its name.
        url: its URL. It may contain a token: use ``shown_url`` in logs.
        secret_env: the environment variable of the pushing processes with the secret that signs
            its requests; None does not sign.
        content_type: the media type of the bodies; None is application/octet-stream.
        concurrency: maximum number of concurrent pushes of one process.
        max_retries: retries before a message is a dead letter; None is the policy of its own queue,
            otherwise five.
        created_ms: when it was added, Unix ms.
        removed_ms: when it was removed, Unix ms: it gets no further messages, and ends when its own
            queue is empty; None if it was not.
    """

    queue: str
    name: str
    url: str = field(repr=False)
    secret_env: str | None = None
    content_type: str | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    max_retries: int | None = None
    created_ms: int = 0
    removed_ms: int | None = None

    @property
    def own_queue(self) -> str:
        """The queue with the messages that are to be pushed to it: ``orders-crm``."""
        return f"{self.queue}-{self.name}"

    @property
    def shown_url(self) -> str:
        """Its URL, without the text of its query."""
        return redact_url(self.url)


class Subscribers:
    """
    The subscribers of the queues of a client.

    Every message of a queue with subscribers is pushed to each of them, with attempts, a circuit
    breaker and a dead-letter queue of its own. It does not matter which client sends the message.
    Processes that push (``rsmq push --subscribers``, ``SubscriberPusher``) notice a change within a
    second. In a set of cells, each call is made in all cells.
    """

    def __init__(self, rsmq: RSMQ[Any] | Cells) -> None:
        """
        Make it.

        Args:
            rsmq: a synchronous client, or a set of cells.
        """
        self._rsmq = rsmq

    def add(
        self,
        queue: str,
        name: str,
        url: str,
        *,
        secret_env: str | None = None,
        content_type: str | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        max_retries: int | None = None,
        replace: bool = False,
    ) -> Subscriber:
        """
        Add a subscriber, and create its own queue ``QUEUE-NAME``, in one atomic step.

        It gets the messages that wait in the queue and have not been copied yet, and all later
        ones. If an earlier subscriber of this name and URL was stopped, as by a 410, messages are
        pushed again. Adding it again with the same settings changes nothing.

        Args:
            queue: the name of the queue, which must exist.
            name: its name, of the characters of a queue's name, without ``-dead`` at the end.
            url: the target. It is stored readable in Redis. The pushing processes decide whether
                http, and addresses that are not public, are allowed.
            secret_env: the name of an environment variable of the pushing processes. Its value is
                one secret, or two with a blank between them. The secret itself is not stored.
            content_type: the media type of the bodies; None is application/octet-stream.
            concurrency: maximum number of concurrent pushes of one process, 1 to 1,000.
            max_retries: retries before a message is a dead letter, from 0; None is the policy of
                its own queue, otherwise five.
            replace: whether other settings replace those of a subscriber of this name. Messages
                that wait for it are pushed by the new settings. It also keeps a subscriber that is
                being removed.

        Returns:
            The subscriber as it is stored.

        Raises:
            QueueNotFound: the queue does not exist.
            SubscriberExists: a subscriber of this name has other settings, or is being removed; or
                its own queue exists already.
            MissingParameter, InvalidFormat: an argument is invalid; or the queue belongs to a
                subscriber itself.
            InvalidValue: a number is out of range, or there are 1,000 subscribers already, or 100
                of this queue.
        """
        check_name(name)
        parse_target(url, allow_http=True, rules=ANY_ADDRESS)
        settings: dict[str, Any] = {"url": url}
        if secret_env is not None:
            settings["secret_env"] = _check_variable(secret_env)
        if content_type is not None:
            settings["content_type"] = check_content_type(content_type)
        check_whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
        if concurrency != DEFAULT_CONCURRENCY:
            settings["concurrency"] = concurrency
        if max_retries is not None:
            settings["max_retries"] = check_whole_number(
                "max_retries", max_retries, 0, MAX_RECEIVES
            )
        record = json.dumps(settings, separators=(",", ":"), sort_keys=True).encode()
        target = target_field(f"{queue}-{name}", url)

        def add(client: RSMQ[Any]) -> Subscriber:
            namespace = client.namespace
            outcome, detail = client.run(
                add_subscriber(namespace, queue, name, record, target, replace=replace)
            )
            _raise_refusal(outcome, detail, queue, name)
            subscriber = parse_subscriber(f"{queue}/{name}", detail)
            assert subscriber is not None  # noqa: S101 - it was stored now
            return subscriber

        return self._rsmq.engine.by_cell(add)[0]

    def list(self, queue: str | None = None) -> list[Subscriber]:
        """
        Return the subscribers of a queue, or of all queues, by queue and name.

        Raises:
            MissingParameter, InvalidFormat: the queue's name is invalid.
        """
        if queue is not None:
            self._rsmq.cells[0].namespace.queue(queue)

        def read(client: RSMQ[Any]) -> dict[str, bytes]:
            return client.run(list_subscribers(client.namespace, b"")) or {}

        found: dict[tuple[str, str], Subscriber] = {}
        for record in self._rsmq.engine.by_cell(read).values():
            for each in parse_record(record):
                found.setdefault((each.queue, each.name), each)
        return [found[key] for key in sorted(found) if queue is None or key[0] == queue]

    def remove(self, queue: str, name: str, *, drop: bool = False) -> bool:
        """
        Remove a subscriber: from now on it gets no further messages.

        Its dead-letter queue, and the state of its circuit breaker, are kept.

        Args:
            queue: the name of the queue.
            name: its name.
            drop: True deletes its own queue with all messages, in the same atomic step. Pushes that
                run still end. False lets the pushing processes push the messages that wait, and
                then delete its queue.

        Returns:
            Whether there was such a subscriber.

        Raises:
            MissingParameter, InvalidFormat: a name is invalid.
        """
        check_name(name)
        self._rsmq.cells[0].namespace.queue(queue)
        field, own = f"{queue}/{name}", f"{queue}-{name}"
        mode = "drop" if drop else "drain"

        def remove(client: RSMQ[Any]) -> int:
            return client.run(remove_subscriber(client.namespace, field, own, mode))

        return any(self._rsmq.engine.by_cell(remove).values())


def check_name(name: object) -> str:
    """
    Return the name of a subscriber, if it is valid.

    Raises:
        MissingParameter: it is None or empty.
        InvalidFormat: it has other characters, or the name of its queue would be one of dead
            letters.
    """
    if name is None or name == "":
        raise MissingParameter("name", value=name, hint="Give the subscriber a name.")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat(
            "name", value=show(name), hint="A subscriber's name has characters of A-Z a-z 0-9 _ -."
        )
    if f"-{name}".endswith(DEAD_LETTER_SUFFIX):
        raise InvalidFormat(
            "name",
            value=name,
            hint=f"Queues whose names end with {DEAD_LETTER_SUFFIX} have the dead letters of "
            "subscribers. Use another name.",
        )
    return name


def parse_record(record: dict[str, bytes]) -> list[Subscriber]:
    """Return the subscribers of a stored record; those that can't be read are left out."""
    parsed = [parse_subscriber(field, text) for field, text in record.items()]
    return [each for each in parsed if each is not None]


def parse_subscriber(field: str, text: bytes) -> Subscriber | None:
    """Return a subscriber from its field and its JSON; None if it can't be read."""
    queue, slash, name = field.rpartition("/")
    try:
        facts = json.loads(text)
        removed = facts.get("removed")
        retries = facts.get("max_retries")
        subscriber = Subscriber(
            queue,
            name,
            str(facts["url"]),
            facts.get("secret_env"),
            facts.get("content_type"),
            int(facts.get("concurrency", DEFAULT_CONCURRENCY)),
            None if retries is None else int(retries),
            int(facts["created"]),
            None if removed is None else int(removed),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return subscriber if slash and queue and name else None


def _check_variable(name: object) -> str:
    if isinstance(name, str) and _VARIABLE.fullmatch(name) and not name.startswith(_SECRET_PREFIX):
        return name
    raise InvalidFormat(
        "secret_env",
        value="(not shown)",
        hint="It is the name of an environment variable that has the secret, and not the secret.",
    )


def _raise_refusal(outcome: str, detail: bytes, queue: str, name: str) -> None:
    """Raise the error of an outcome of ``add_subscriber`` that has stored nothing."""
    if outcome in ("queue", "exists"):
        raise SubscriberExists(f"{queue}-{name}", is_queue_of_others=outcome == "queue")
    if outcome == "chain":
        other = detail.decode(errors="replace")
        raise InvalidFormat(
            "queue",
            value=queue,
            hint=f"The queue of a subscriber has no subscribers itself; see subscriber "
            f"{show(other)}.",
        )
    if outcome == "full":
        limit = int(detail)
        of_all = limit == MAX_SUBSCRIBERS
        raise InvalidValue(
            "number of subscribers",
            0,
            limit,
            value=limit + 1,
            hint=f"{'The namespace' if of_all else f'Queue {show(queue)}'} has {limit:,} already. "
            "Remove one first.",
        )
