"""
One call of the program: its options, the environment, the profile, and the client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import Output, format_text
from rsmq.cli.app.profiles import Config, Profile, read_config
from rsmq.errors import show_all
from rsmq.wire.keys import DEFAULT_NS

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.codecs import Codec

DEFAULT_URL = "redis://127.0.0.1:6379/0"

#: A call that can't reach Redis is retried for this time; an attempt ends then too. A person waits,
#: but a busy machine, or a long command of Redis, must not be taken for a Redis that is away.
RETRY_DEADLINE_SECONDS = 2.0


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
    def codec(self) -> Codec[Any, bytes]:
        """
        The codec of bodies as bytes: of ``--codec``, or one that keeps them unchanged.

        Raises:
            InvalidFormat: there is no such codec.
        """
        name = self.options.get("codec")
        if name is None:
            return BODY_CODEC
        from rsmq.codecs.readable import ReadableBodies, import_codec  # noqa: PLC0415 - takes time

        return ReadableBodies(import_codec(name))

    @cached_property
    def out(self) -> Output:
        """The standard output. Read it only after all options were parsed."""
        return Output(as_json=self.as_json)

    @cached_property
    def config(self) -> Config:
        """The configuration file."""
        return read_config()

    @cached_property
    def configured_url(self) -> str | None:
        """
        The URL of Redis; None if no option, variable or profile sets one.

        The first that sets a value has precedence: the option, the environment, the profile. A
        profile that ``--profile`` names has precedence over the environment. The URL may contain a
        password: never print it without ``redact``.

        Raises:
            Failed: the configuration file is invalid, or does not have the profile.
        """
        url: str | None = self._find_setting("url")
        return url

    @cached_property
    def configured_namespaces(self) -> tuple[str, ...]:
        """
        The namespaces, without repeated ones; none if no option, variable or profile names one.

        The precedence is that of ``configured_url``.

        Raises:
            Failed: as for ``configured_url``.
        """
        found: str | Sequence[str] = self._find_setting("ns") or ()
        return tuple(dict.fromkeys([found] if isinstance(found, str) else found))

    @property
    def url(self) -> str:
        """The URL of Redis, configured or not. Raises as ``configured_url``."""
        return self.configured_url or self.default_url

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces, at least one. Raises as ``configured_url``."""
        return self.configured_namespaces or (DEFAULT_NS,)

    @property
    def namespace(self) -> str:
        """
        The only namespace, of a command that works on one.

        Raises:
            Failed: there are several; or as for ``configured_url``.
        """
        if len(self.namespaces) > 1:
            context = click.get_current_context(silent=True)
            name = (context and context.info_name) or "This command"
            raise Failed(
                f"{name} works on one namespace",
                hint=f"Pass one --ns: {show_all(self.namespaces)}. Nothing was changed.",
            )
        return self.namespaces[0]

    @property
    def any_names(self) -> bool:
        """Return whether queue names are allowed that the Node client refuses."""
        return bool(self.options.get("any_names", self._profile[0].any_names))

    def _find_setting(self, name: str) -> Any:
        profile, overrides_environment = self._profile
        in_profile = getattr(profile, name)
        return (
            self.options.get(name)
            or (overrides_environment and in_profile)
            or os.environ.get(f"RSMQ_{name.upper()}")
            or in_profile
            or None
        )

    @cached_property
    def _profile(self) -> tuple[Profile, bool]:
        """The profile, and whether it has precedence over the environment."""
        option = self.options.get("profile")
        name = option or os.environ.get("RSMQ_PROFILE") or self.config.default
        return (self.config.profile(name) if name else Profile()), option is not None

    def open(self, **client_options: Any) -> RSMQ[Any]:
        """
        Return a client of the only namespace. Close it, or use it with ``with``.

        Its bodies are bytes. A call that can't reach Redis is retried for half a second.

        Args:
            client_options: further arguments of ``RSMQ.from_url``.

        Raises:
            Failed: there are several namespaces; or the configuration file is invalid, or does not
                have the profile.
            RSMQError: the URL or the namespace is invalid.
        """
        return self._open(self.namespace, client_options)

    @contextmanager
    def open_each(self, **client_options: Any) -> Iterator[list[RSMQ[Any]]]:
        """
        Open a client of each namespace, as ``open`` does, and close them at the end.

        Args:
            client_options: further arguments of ``RSMQ.from_url``.

        Raises:
            Failed, RSMQError: as for ``open``, but for several namespaces.
        """
        with ExitStack() as stack:
            yield [stack.enter_context(self._open(ns, client_options)) for ns in self.namespaces]

    def _open(self, ns: str, client_options: dict[str, Any]) -> RSMQ[Any]:
        from rsmq._sync.client import RSMQ  # noqa: PLC0415 - takes time, and --help needs none

        return RSMQ.from_url(self.url, ns=ns, **self.client_options | client_options)

    @property
    def client_options(self) -> dict[str, Any]:
        """The arguments of ``from_url`` of a client, but for the URL and the namespace."""
        return {
            "codec": self.codec,
            "strict_names": not self.any_names,
            "retry_deadline": RETRY_DEADLINE_SECONDS,
            "realtime": self.realtime,
        }

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

    def note_missing(self, ids: Sequence[str]) -> Exit | None:
        """Write which messages are not there; return the exit code."""
        for id in ids:
            self.out.note(f"{format_text(id)}: not there")
        return Exit.NOT_ALL if ids else None

    def for_each(
        self,
        names: Iterable[str],
        act: Callable[[str], tuple[dict[str, Any], str]],
        *,
        kind: str = "queue",
        one_is_alone: bool = False,
    ) -> list[dict[str, Any]]:
        """
        Act on one queue or other thing after the other, and write and return the results.

        If an error ends it, the results of the earlier ones are written too.

        Args:
            names: their names; a repeated name counts once.
            act: acts on one of them, and returns the result as fields for JSON and as text.
            kind: the field of the name.
            one_is_alone: whether the result of a single name is an object, and not an array.
        """
        results: list[dict[str, Any]] = []
        different = dict.fromkeys(names)
        try:
            for name in different:
                result, result_text = act(name)
                results.append({kind: name, **result})
                if not self.as_json:
                    self.out.result(None, f"{format_text(name)}: {result_text}")
            return results
        finally:
            if self.as_json and results:
                is_alone = one_is_alone and len(different) == 1
                self.out.result(results[0] if is_alone else results, ())
