"""
The parser of the option values of ``format("rsmq")``.

Spark passes options as texts under case-insensitive names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from rsmq.errors import InvalidOption, RSMQError, show
from rsmq.errors.hints import Words
from rsmq.wire.keys import Namespace

T = TypeVar("T")

#: Options that Spark itself adds to those of the user.
_SPARK_OPTIONS = ("checkpointLocation", "queryName", "serialization.format", "mergeSchema")

#: The options to which Spark adds the arguments of ``load(...)``, ``save(...)`` and ``start(...)``.
_PATH_OPTIONS = ("path", "paths")

_LEASE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


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

    def read_flag(self, name: str, default: bool) -> bool:  # noqa: FBT001
        """Return whether an option is ``true``, in any case."""
        text = self._texts.get(name, "true" if default else "false").strip().lower()
        return self._choose(name, {"true": True, "false": False}, text)

    def read_choice(self, name: str, choices: Iterable[str], default: Any) -> Any:
        """Return one of the choices, which are compared in lower case."""
        text = self._texts.get(name, default).strip().lower()
        return self._choose(name, {choice.lower(): choice for choice in choices}, text)

    def _choose(self, name: str, choices: dict[str, T], text: str) -> T:
        if text not in choices:
            rule = f"is one of {', '.join(choices)}; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return choices[text]

    def read_integer(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
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

    def read_lease_name(self, name: str) -> str | None:
        """Return the name of a lease or a write; None if the option is missing."""
        # An empty text is refused: it is probably a variable that was not set.
        text = self._texts.get(name)
        if text is not None and not _LEASE_NAME.fullmatch(text):
            rule = f"is 1 to 64 characters of A-Z a-z 0-9 _ . -; got {show(text)}."
            raise InvalidOption(name, rule, value=text)
        return text


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
