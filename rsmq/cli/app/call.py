"""
One call of the program: its options, the environment, the profile, and the client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import Output, format_text
from rsmq.cli.app.profiles import Config, Profile, read_config
from rsmq.wire.keys import DEFAULT_NS

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.aio import AsyncRSMQ

DEFAULT_URL = "redis://127.0.0.1:6379/0"

#: A call that can't reach Redis is retried for this time. It is short, because a person waits.
RETRY_DEADLINE_SECONDS = 0.5


class _BodyCodec:
    """
    A codec for bodies of bytes, which keeps their bytes unchanged.

    A body that is UTF-8 is passed on as text, so that its size is compared with maxsize in UTF-16
    code units, as the Node client does it.
    """

    def encode(self, body: bytes) -> str | bytes:
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body

    def decode(self, raw: bytes) -> bytes:
        return raw

    def __repr__(self) -> str:
        return "the bytes of the body"


BODY_CODEC = _BodyCodec()


@dataclass(frozen=True, slots=True)
class Location:
    """
    The server and the namespace of the queues.

    Attributes:
        url: the URL of Redis. It may contain a password: never print it without ``redact``.
        any_names: whether queue names are allowed that the Node client refuses.
    """

    url: str
    ns: str
    any_names: bool


@dataclass(frozen=True, slots=True)
class Configured:
    """
    The values that an option, a variable or a profile sets; None for each that none sets.

    Attributes:
        urls: the URL of Redis, or the URLs of cells. They may contain passwords.
        ns: the namespace, or the name of the set of cells.
        cells: the number of cells; None for one ordinary namespace.
    """

    urls: tuple[str, ...] | None
    ns: str | None
    cells: int | None


@dataclass
class Call:
    """
    One call of the program.

    Attributes:
        options: the options for every command that the command line has, by name.
        default_url: the URL of Redis if no option, variable or profile sets one.
    """

    options: dict[str, Any] = field(default_factory=dict)
    default_url: str = DEFAULT_URL

    @property
    def as_json(self) -> bool:
        """Return whether the output is JSON, for a program."""
        return bool(self.options.get("json"))

    @property
    def realtime(self) -> bool:
        """Return whether to publish the number of messages after each send."""
        return bool(self.options.get("realtime"))

    @cached_property
    def out(self) -> Output:
        """The standard output. Read it only after all options were parsed."""
        return Output(as_json=self.as_json)

    @cached_property
    def config(self) -> Config:
        """The configuration file."""
        return read_config()

    @cached_property
    def location(self) -> Location:
        """
        The location of the queues, from the options, the environment, the profile or the default.

        The first that sets a value has precedence. A profile that ``--profile`` names has
        precedence over the environment.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile; or the
                location is a set of cells.
        """
        url, ns = self.configured
        return Location(url or self.default_url, ns or DEFAULT_NS, self.any_names)

    @cached_property
    def configured(self) -> tuple[str | None, str | None]:
        """
        The URL and the namespace; None for each that no option, variable or profile sets.

        Raises:
            Failed: as for ``location``.
        """
        values = self.configured_place
        if values.cells is not None:
            raise _refuse_cells(values)
        return (None if values.urls is None else values.urls[0]), values.ns

    @cached_property
    def cells(self) -> int | None:
        """
        The number of cells; None for one ordinary namespace.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile.
        """
        return self.configured_place.cells

    @property
    def any_names(self) -> bool:
        """Return whether queue names are allowed that the Node client refuses."""
        return bool(self.options.get("any_names", self._profile[0].any_names))

    @cached_property
    def configured_place(self) -> Configured:
        """
        The servers, the namespace and the number of cells, as far as they are configured.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile.
        """
        profile, overrides_environment = self._profile
        values: list[Any] = []
        for name, in_profile in (("url", profile.url), ("ns", profile.ns)):
            in_environment = os.environ.get(f"RSMQ_{name.upper()}")
            values.append(
                self.options.get(name)
                or (overrides_environment and in_profile)
                or in_environment
                or in_profile
                or None
            )
        url, ns = values
        cells = self._find_number_of_cells(profile, overrides_environment=overrides_environment)
        texts = [url] if isinstance(url, str) else list(url or ())
        urls = [each for text in texts for each in text.split()]
        if cells is None and len(texts) == 1 and sum("://" in each for each in urls) < 2:  # noqa: PLR2004 - several
            urls = texts
        if cells is None and len(urls) > 1:
            raise Failed(
                f"{len(urls)} URLs, but no number of cells",
                hint="Several URLs are those of cells: add --cells. Or pass one URL by --url.",
            )
        if cells is not None:
            from rsmq.wire.cells import check_set  # noqa: PLC0415 - only here

            check_set(ns or DEFAULT_NS, cells)
        return Configured(tuple(urls) or None, ns, cells)

    def _find_number_of_cells(self, profile: Profile, *, overrides_environment: bool) -> int | None:
        """Return the number of cells; None if the namespace has a hash tag, which names a cell."""
        option: int | None = self.options.get("cells")
        if option is not None:
            return option
        in_environment = None if overrides_environment else os.environ.get("RSMQ_NS")
        if "{" in (self.options.get("ns") or in_environment or ""):
            return None
        text = os.environ.get("RSMQ_CELLS")
        if overrides_environment or not text:
            return profile.cells
        if not text.strip().isdecimal():
            raise Failed(
                f"RSMQ_CELLS is not a whole number: {text!r}",
                hint="It is the number of cells, as in RSMQ_CELLS=12. Without cells, unset it.",
            )
        return int(text)

    @cached_property
    def _profile(self) -> tuple[Profile, bool]:
        """The profile, and whether it has precedence over the environment."""
        option = self.options.get("profile")
        name = option or os.environ.get("RSMQ_PROFILE") or self.config.default
        return (self.config.profile(name) if name else Profile()), option is not None

    def open_queues(self, *, client_options: Mapping[str, Any] | None = None) -> RSMQ:
        """
        Return a client of the namespace or of the set of cells, as ``open`` does.

        Args:
            client_options: further arguments of ``from_url``.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile.
            RSMQError: a URL, the namespace or the number of cells is invalid.
        """
        return self.open(client_options=client_options)

    def open_async(self, *, client_options: Mapping[str, Any] | None = None) -> AsyncRSMQ[Any]:
        """
        Return an asyncio client of the namespace or of the set of cells, as ``open_queues`` does.

        Its calls raise PartlyDone if cells of the set fail.

        Raises:
            Failed, RSMQError: as for ``open_queues``.
        """
        arguments = self._client_arguments(client_options)
        from rsmq.aio import AsyncRSMQ  # noqa: PLC0415 - takes time

        return AsyncRSMQ.from_url(self.location.url, ns=self.location.ns, **arguments)

    def _client_arguments(self, client_options: Mapping[str, Any] | None) -> dict[str, Any]:
        return {
            "codec": BODY_CODEC,
            "strict_names": not self.any_names,
            "retry_deadline": RETRY_DEADLINE_SECONDS,
            "realtime": self.realtime,
            **(client_options or {}),
        }

    def open(
        self,
        *,
        url: str | None = None,
        ns: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> RSMQ:
        """
        Return a client whose bodies are bytes. Close it, or use it with ``with``.

        A call that can't reach Redis is retried for half a second.

        Args:
            url: a URL that replaces that of ``location``.
            ns: a namespace that replaces that of ``location``.
            client_options: further arguments of ``RSMQ.from_url``.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile; or the
                location is a set of cells.
            RSMQError: the URL or the namespace is invalid.
        """
        location = self.location
        arguments = self._client_arguments(client_options)
        from rsmq._sync.client import RSMQ  # noqa: PLC0415 - takes time, and --help needs none

        return RSMQ.from_url(url or location.url, ns=ns or location.ns, **arguments)

    def confirm(self, question: str, *, yes: bool) -> None:
        """
        Ask the user before data is removed.

        Args:
            question: a question that names the effect.
            yes: whether the user has already agreed, with ``--yes``; then nothing is asked.

        Raises:
            Failed: the standard input or the standard error is not a terminal, or the answer is no.
        """
        if yes:
            return
        if not sys.stdin.isatty() or not sys.stderr.isatty():
            raise Failed(
                "This needs a confirmation, but there is no terminal",
                hint="Add --yes. Nothing was changed.",
            )
        if not click.confirm(question, err=True):
            raise Failed("Nothing was changed", exit=Exit.NOT_ALL, code="declined")

    def for_each(
        self, queues: Iterable[str], act: Callable[[str], tuple[dict[str, Any], str]]
    ) -> None:
        """
        Act on one queue after the other, and write the results.

        If an error ends it, the results of the earlier queues are written too.

        Args:
            queues: the names of the queues; a repeated name counts once.
            act: acts on a queue, and returns the result as fields for JSON and as text.
        """
        results: list[dict[str, Any]] = []
        try:
            for queue in dict.fromkeys(queues):
                result, result_text = act(queue)
                results.append({"queue": queue, **result})
                if not self.as_json:
                    self.out.result(None, f"{format_text(queue)}: {result_text}")
        finally:
            if self.as_json and results:
                self.out.result(results, ())


def _refuse_cells(values: Configured) -> Failed:
    """Return the error of a command that works on one namespace only."""
    from rsmq.wire.cells import name_of_cell  # noqa: PLC0415 - only here

    ns = name_of_cell(values.ns or DEFAULT_NS, 0)
    url = " and --url with the URL of its server" if len(values.urls or ()) > 1 else ""
    return Failed(
        "This command works on one namespace, and not on a set of cells",
        hint="Each cell is an ordinary namespace: without --cells, name one by "
        f"--ns '{ns}'{url}. rsmq cells lists them. Nothing was changed.",
    )
