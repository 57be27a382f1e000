"""
One call of the program: its options, the environment, the profile, and the client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import Output, shown
from rsmq.cli.app.profiles import Config, Profile, read_config
from rsmq.client import RSMQ
from rsmq.wire.keys import DEFAULT_NS

DEFAULT_URL = "redis://127.0.0.1:6379/0"

#: Seconds for which a call is tried again that Redis was not reached with: a person waits.
RETRY_DEADLINE = 0.5


class _Body:
    """Bytes as they are; those of UTF-8 are held against maxsize as text, as Node does."""

    def encode(self, body: bytes) -> str | bytes:
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "the bytes of the body"


BODY = _Body()


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where the queues are.

    Attributes:
        url: of Redis; it may hold a password, and is never shown as it is.
        ns: the namespace.
        any_names: whether queue names go that Node would refuse.
    """

    url: str
    ns: str
    any_names: bool


@dataclass
class Call:
    """
    A call of the program.

    Attributes:
        given: the options for every command, by name, as far as they were given.
        default_url: where Redis is if nobody says it.
    """

    given: dict[str, Any] = field(default_factory=dict)
    default_url: str = DEFAULT_URL

    @property
    def as_json(self) -> bool:
        """Whether the output is for a program."""
        return bool(self.given.get("json"))

    @cached_property
    def out(self) -> Output:
        """The standard output; made when all options are read."""
        return Output(as_json=self.as_json)

    @cached_property
    def config(self) -> Config:
        """The configuration file."""
        return read_config()

    @cached_property
    def place(self) -> Place:
        """
        Where the queues are: option, environment, profile, default.

        A profile that is given by an option goes before the environment.

        Raises:
            Failed: the configuration file is wrong, or has no such profile.
        """
        url, ns = self.configured
        profile, _ = self._profile
        any_names = bool(self.given.get("any_names", profile.any_names))
        return Place(url or self.default_url, ns or DEFAULT_NS, any_names)

    @cached_property
    def configured(self) -> tuple[str | None, str | None]:
        """
        Url and namespace as somebody says them; None where nobody does.

        Raises:
            Failed: as for place.
        """
        profile, first = self._profile
        told = []
        for name, says in (("url", profile.url), ("ns", profile.ns)):
            stands = os.environ.get(f"RSMQ_{name.upper()}")
            told.append(self.given.get(name) or (first and says) or stands or says or None)
        url, ns = told
        return url, ns

    @cached_property
    def _profile(self) -> tuple[Profile, bool]:
        """The profile, and whether it goes before the environment."""
        given = self.given.get("profile")
        name = given or os.environ.get("RSMQ_PROFILE") or self.config.default
        return (self.config.profile(name) if name else Profile()), given is not None

    def open(
        self,
        *,
        url: str | None = None,
        ns: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> RSMQ:
        """
        A client, whose bodies are bytes; it is closed by ``with``.

        A call that does not reach Redis is tried again for half a second.

        Args:
            url: another place than that of the options, as the target of a migration.
            ns: another namespace.
            options: others of ``RSMQ.from_url``.

        Raises:
            Failed: the configuration file is wrong, or has no such profile.
            RSMQError: the url or the namespace is none.
        """
        place = self.place
        known: dict[str, Any] = {
            "codec": BODY,
            "strict_names": not place.any_names,
            "retry_deadline": RETRY_DEADLINE,
            **(options or {}),
        }
        return RSMQ.from_url(url or place.url, ns=ns or place.ns, **known)

    def confirm(self, question: str, *, yes: bool) -> None:
        """
        Ask before something is lost.

        Args:
            question: what would happen, as a question.
            yes: whether the person has said so before.

        Raises:
            Failed: nobody is there to ask, or the answer is no.
        """
        if yes:
            return
        if not sys.stdin.isatty() or not sys.stderr.isatty():
            raise Failed(
                "This needs a yes, and there is no terminal to ask at",
                hint="Add --yes. Nothing was changed.",
            )
        import click  # noqa: PLC0415 - rsmq-worker runs without click

        if not click.confirm(question, err=True):
            raise Failed("Nothing was changed", exit=Exit.NOT_ALL, code="declined")

    def for_each(
        self, queues: Iterable[str], act: Callable[[str], tuple[dict[str, Any], str]]
    ) -> None:
        """
        Act on one queue after the other, and write what was done, also if an error ends it.

        Args:
            queues: the names of the queues.
            act: acts on a queue; returns what it did, for JSON and in a word.
        """
        results: list[dict[str, Any]] = []
        try:
            for queue in dict.fromkeys(queues):
                result, word = act(queue)
                results.append({"queue": queue, **result})
                if not self.as_json:
                    self.out.result(None, f"{shown(queue)}: {word}")
        finally:
            if self.as_json and results:
                self.out.result(results, ())

    def with_options(self, **options: Any) -> Call:
        """Return a call with more options; those that are None or False are not set."""
        added = {name: value for name, value in options.items() if value}
        return Call({**self.given, **added}, self.default_url)
