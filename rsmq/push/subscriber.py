"""
A subscriber of a queue: its settings, their checks and stored form, without I/O.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from rsmq.errors import InvalidFormat, InvalidValue, MissingParameter, SubscriberExists, show
from rsmq.push.operations import MAX_SUBSCRIBERS
from rsmq.webhooks.addresses import ANY_ADDRESS
from rsmq.webhooks.signatures import check_variable
from rsmq.webhooks.targets import DEAD_LETTER_SUFFIX, check_content_type, parse_target, redact_url
from rsmq.wire.limits import MAX_RECEIVES, check_whole_number

#: Concurrent pushes of one process to a subscriber, if it is added without a number.
DEFAULT_CONCURRENCY = 8
MAX_CONCURRENCY = 1000
_NAME = re.compile(r"[a-zA-Z0-9_-]+")


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


def make_record(
    name: str,
    url: str,
    *,
    secret_env: str | None,
    content_type: str | None,
    concurrency: int,
    max_retries: int | None,
) -> bytes:
    """
    Check the settings of a subscriber, and return them as they are stored: JSON without times.

    Raises:
        The errors of ``AsyncSubscribers.add`` for its arguments.
    """
    check_name(name)
    parse_target(url, allow_http=True, rules=ANY_ADDRESS)
    settings: dict[str, Any] = {"url": url}
    if secret_env is not None:
        settings["secret_env"] = check_variable(secret_env)
    if content_type is not None:
        settings["content_type"] = check_content_type(content_type)
    check_whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
    if concurrency != DEFAULT_CONCURRENCY:
        settings["concurrency"] = concurrency
    if max_retries is not None:
        settings["max_retries"] = check_whole_number("max_retries", max_retries, 0, MAX_RECEIVES)
    return json.dumps(settings, separators=(",", ":"), sort_keys=True).encode()


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


def raise_refusal(outcome: str, detail: bytes, queue: str, name: str) -> None:
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
