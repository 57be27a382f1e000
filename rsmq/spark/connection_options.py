"""
The options of ``format("rsmq")``: the parser of their texts, and those that say where queues are.

Spark passes options as texts under case-insensitive names. It may send them to other processes, so
they never contain a password, only its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from rsmq.codecs.readable import ReadableBodies, import_codec
from rsmq.errors import InvalidOption, RSMQError, show
from rsmq.errors.hints import Words
from rsmq.transport.url import has_password, is_group_url, mask_secrets, with_options
from rsmq.wire.keys import DEFAULT_NS, Namespace

T = TypeVar("T")

#: Options that Spark itself adds to those of the user.
_SPARK_OPTIONS = ("checkpointLocation", "queryName", "serialization.format", "mergeSchema")

#: The options to which Spark adds the arguments of ``load(...)``, ``save(...)`` and ``start(...)``.
_PATH_OPTIONS = ("path", "paths")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class _Options(Words):
    """The words of Spark's options."""

    def argument(self, name: str) -> str:
        """Return the option for an argument of Python."""
        first, *others = name.split("_")
        return first + "".join(map(str.title, others))

    def passed(self, name: str, value: object) -> str:
        """Return an option with its value."""
        return f"{self.argument(name)}={str(value).lower()}"


option_words = _Options()


class OptionReader:
    """The options of one read or write, each converted to its type when it is read."""

    def __init__(
        self, options: Mapping[str, str], allowed: Iterable[str], refused: Mapping[str, str] = {}
    ) -> None:
        """
        Check the names of options.

        Args:
            options: the options as Spark passes them.
            allowed: the names that are valid here, beside Spark's own and ``redis.*``.
            refused: the names that are valid elsewhere, each with the rule that its error shows.

        Raises:
            InvalidOption: a name is not allowed here, or the option would hold a password.
        """
        names = {name.lower(): name for name in allowed}
        names_elsewhere = {name.lower(): name for name in refused}
        self._texts: dict[str, str] = {}
        for option, text in options.items():
            name = names.get(option.lower())
            if name is not None:
                self._texts[name] = text
            elif elsewhere := names_elsewhere.get(option.lower()):
                raise InvalidOption(elsewhere, refused[elsewhere], value=text)
            elif option.lower() == "redis.decode_responses":
                raise InvalidOption(option, "is not for Spark: what is in Redis is read as bytes.")
            elif option.lower().startswith("redis.") and "password" not in option.lower():
                self._texts[option.lower()] = text
            elif "password" in option.lower():
                env, file = "passwordEnv", "passwordFile"
                if "sentinel" in option.lower():
                    env, file = "sentinelPasswordEnv", "sentinelPasswordFile"
                raise InvalidOption(
                    option,
                    "a password in an option would be stored in plans and checkpoints. Set "
                    f"{env} to the name of an environment variable, or {file} to the path of a "
                    "file, that every process of the job can read.",
                )
            elif option.lower() in _PATH_OPTIONS:
                raise InvalidOption(
                    option,
                    "a queue is not at a path: name it with the option queue, and call load, save "
                    "or start without a path.",
                    value=text,
                )
            elif option.lower() not in map(str.lower, _SPARK_OPTIONS):
                near = difflib.get_close_matches(option.lower(), names, 1)
                suggestion = (
                    f"did you mean {names[near[0]]}?"
                    if near
                    else f"there are {', '.join(names.values())}."
                )
                raise InvalidOption(option, f"there is no such option here; {suggestion}")

    def find_present(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that are among the options."""
        return [name for name in names if name in self._texts]

    def read_text(self, name: str) -> str | None:
        """Return an option as it is; None if it is missing or empty."""
        return self._texts.get(name) or None

    def read_redis_options(self) -> dict[str, str]:
        """Return the options ``redis.*``, without that prefix."""
        return {name[6:]: text for name, text in self._texts.items() if name.startswith("redis.")}

    def read_flag(self, name: str, default: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Return whether an option is ``true``, in any case."""
        return self.read_choice(name, ("true", "false"), str(default)) == "true"

    def read_choice(self, name: str, choices: Sequence[str], default: str = "") -> str:
        """Return one of the choices, which are in lower case; by default the first."""
        text = self._texts.get(name, default or choices[0]).strip().lower()
        if text not in choices:
            rule = f"is one of {', '.join(choices)}; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return text

    def read_switch(self, name: str, off: str, on: str) -> bool:
        """Return whether an option is the second of two choices; by default it is the first."""
        return self.read_choice(name, (off, on)) == on

    def read_integer(self, name: str, default: int | None, low: int, high: int) -> Any:
        """Return a whole number from ``low`` to ``high``, both included."""
        if default is None and not self._texts.get(name):
            return None
        text = self._texts.get(name, str(default)).strip()
        if not re.fullmatch(r"-?\d{1,18}", text) or not low <= int(text) <= high:
            raise InvalidOption(
                name, f"is a whole number from {low} to {high}; got {show(text)}.", value=text
            )
        return int(text)

    def read_seconds(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number of seconds from ``low`` to ``high``, both included."""
        text = self._texts.get(name, str(default)).strip()
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not low <= number <= high:
            rule = f"is a number of seconds from {low:.15g} to {high:.15g}; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return number

    def read_time_us(self, name: str) -> int | None:
        """
        Return a time in Unix microseconds; None if the option is missing or empty.

        Up to 15 digits are Unix milliseconds; any other text is ISO 8601, in UTC unless it has an
        offset.
        """
        text = (self._texts.get(name) or "").strip()
        if not text:
            return None
        if re.fullmatch(r"\d{1,15}", text):
            return int(text) * 1000
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidOption(
                name,
                "is Unix milliseconds, or a time such as 2026-01-31T12:00:00+00:00 (UTC without "
                f"an offset); got {show(text)}.",
                value=text,
            ) from None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return round(time.timestamp() * 1_000_000)

    def read_columns(self, name: str) -> tuple[str, ...] | None:
        """Return comma-separated names; None if the option is missing or empty."""
        text = self.read_text(name)
        return None if text is None else tuple(part.strip() for part in text.split(","))

    def read_record(self, record: type[T], **values: Any) -> T:
        """Return a record whose other fields are options, with their options."""
        for each in fields(record):  # type: ignore[arg-type]
            if each.name not in values:
                name, read, arguments = each.metadata["option"]
                values[each.name] = read(self, name, *arguments)
        return record(**values)

    def read_name(self, name: str) -> str | None:
        """Return the name of a stream or a write; None if the option is missing."""
        # An empty text is refused: it is probably a variable that was not set.
        text = self._texts.get(name)
        if text is not None and not _NAME.fullmatch(text):
            rule = f"is 1 to 64 characters of A-Z a-z 0-9 _ . -; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return text


def _from_option(read: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """
    Return a field that an option fills.

    Args:
        read: a method of ``OptionReader``, which reads it.
        name: the name of the option.
        arguments: the further arguments of the method: the default, and the range or the choices.
    """
    return field(metadata={"option": (name, read, arguments)})


text_option = partial(_from_option, OptionReader.read_text)
flag_option = partial(_from_option, OptionReader.read_flag)
choice_option = partial(_from_option, OptionReader.read_choice)
switch_option = partial(_from_option, OptionReader.read_switch)
integer_option = partial(_from_option, OptionReader.read_integer)
seconds_option = partial(_from_option, OptionReader.read_seconds)
time_option = partial(_from_option, OptionReader.read_time_us)
columns_option = partial(_from_option, OptionReader.read_columns)
name_option = partial(_from_option, OptionReader.read_name)


def option_names(record: type) -> list[str]:
    """Return the names of the options that fill fields of a record."""
    return [each.metadata["option"][0] for each in fields(record) if each.metadata]


def has_options(options: Mapping[str, str]) -> bool:
    """Return whether a statement has options, beside those that Spark itself adds."""
    return not {name.lower() for name in options}.issubset(map(str.lower, _SPARK_OPTIONS))


def make_new_table_refused() -> InvalidOption:
    """Return the error of a write that would create a table."""
    return InvalidOption(
        "queue",
        "a write can't create a table that could be read: Spark does not pass its options to a "
        "source in Python. Create the table before, by CREATE TABLE name USING rsmq OPTIONS (...), "
        "or write without a table, by write.format('rsmq').options(...).mode('append').save().",
    )


def check_queue_name(namespaces: Iterable[Namespace], option: str, queue: str) -> str:
    """
    Return the name of a queue.

    Raises:
        InvalidOption: the name is not valid; the error names the option.
    """
    try:
        for namespace in namespaces:
            namespace.queue(queue)
    except RSMQError as error:
        raise InvalidOption(option, error.in_words(option_words), value=queue) from None
    return queue


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """
    The Redis server and the namespaces of queues.

    Attributes:
        url: the URL of the server, without a password; its query has redis-py's options.
        namespaces: the namespaces of the queues; a write has one.
        password_env: the environment variable that holds the password, in every process.
        password_file: the file that holds the password, on every machine.
        sentinel_password_env: the environment variable that holds the password of the Sentinels.
        sentinel_password_file: the file that holds the password of the Sentinels.
        retry_deadline: how long commands are retried while Redis is away, seconds.
        codec: the name of the codec that compresses and encrypts bodies, as in ``app:codec``; each
            process imports it. None leaves bodies as they are stored.
    """

    url: str
    namespaces: tuple[Namespace, ...]
    password_env: str | None = text_option("passwordEnv")
    password_file: str | None = text_option("passwordFile")
    sentinel_password_env: str | None = text_option("sentinelPasswordEnv")
    sentinel_password_file: str | None = text_option("sentinelPasswordFile")
    retry_deadline: float = seconds_option("retryDeadline", 60, 0, 86_400)
    codec: str | None = text_option("codec")

    @property
    def bodies(self) -> ReadableBodies | None:
        """The codec of bodies as bytes; None without one."""
        return None if self.codec is None else ReadableBodies(import_codec(self.codec))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the namespaces."""
        return tuple(namespace.name for namespace in self.namespaces)


CONNECTION_OPTIONS = (
    "url", "host", "port", "db", "username", "ssl", "ns", "strictNames",
    *option_names(ConnectionOptions),
)  # fmt: skip


def parse_connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """
    Return the connection options of a job that has no other options.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    return read_connection_options(OptionReader(options, CONNECTION_OPTIONS))


def read_connection_options(reader: OptionReader) -> ConnectionOptions:
    """
    Return the connection options among all options of a read or a write.

    Raises:
        InvalidOption: an option has an invalid value, or contradicts another one.
    """
    url = reader.read_text("url")
    url_parts = [name for name in ("host", "port", "db", "ssl") if reader.read_text(name)]
    if url is not None and url_parts:
        raise InvalidOption("url", f"says where Redis is; leave out {', '.join(url_parts)}.")
    if url is None:
        scheme = "rediss" if reader.read_flag("ssl") else "redis"
        host = reader.read_text("host") or "127.0.0.1"
        port = reader.read_integer("port", 6379, 1, 65535)
        db = reader.read_integer("db", 0, 0, 1_000_000)
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{db}"
    _check_url(url)
    query = reader.read_redis_options()
    if reader.read_text("username"):
        query["username"] = reader.read_text("username") or ""
    _check_password_options(reader, url)
    namespaces = _read_namespaces(reader)
    url = with_options(url, query)
    found = reader.read_record(ConnectionOptions, url=url, namespaces=namespaces)
    if found.codec is not None:
        try:
            import_codec(found.codec)
        except RSMQError as error:
            raise InvalidOption("codec", str(error)) from None
    return found


def _read_namespaces(reader: OptionReader) -> tuple[Namespace, ...]:
    names = dict.fromkeys(reader.read_columns("ns") or (DEFAULT_NS,))
    strict_names = reader.read_flag("strictNames", True)
    try:
        return tuple(Namespace(name, strict_names) for name in names)
    except RSMQError as error:
        raise InvalidOption("ns", str(error)) from None


def _check_password_options(reader: OptionReader, url: str) -> None:
    for env, file in (
        ("passwordEnv", "passwordFile"),
        ("sentinelPasswordEnv", "sentinelPasswordFile"),
    ):
        if reader.read_text(env) and reader.read_text(file):
            raise InvalidOption(env, f"give it or {file}, not both.")
    for name in ("sentinelPasswordEnv", "sentinelPasswordFile"):
        if reader.read_text(name) and "+sentinel://" not in url:
            raise InvalidOption(
                name, "is for a url that begins with redis+sentinel://. Remove the option."
            )


def _check_url(url: str) -> None:
    if any("://" in word for word in url.split()[1:]):
        raise InvalidOption("url", "is one URL, and this has several.")
    masked = mask_secrets(url)
    if not url.startswith(("redis://", "rediss://", "unix://")) and not is_group_url(url):
        raise InvalidOption(
            "url",
            "begins with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://; got "
            f"{show(masked)}. memory:// is one process's own: Spark's processes could not share "
            "it.",
            value=masked,
        )
    is_secret = has_password(url)
    if is_secret is None:
        rule = f"is not a URL such as redis://127.0.0.1:6379/0; got {show(masked)}."
        raise InvalidOption("url", rule, value=masked)
    if is_secret:
        raise InvalidOption(
            "url",
            "has a password, which would be stored in plans and checkpoints. Remove it, and set "
            "passwordEnv to the name of an environment variable, or passwordFile to the path of "
            "a file, that every process of the job can read. For that of Sentinels it is "
            "sentinelPasswordEnv or sentinelPasswordFile.",
        )
