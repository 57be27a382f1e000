"""
How pages show values: numbers, times, and names of any characters.
"""

from __future__ import annotations

import json
import time
import unicodedata
from datetime import UTC, datetime
from typing import Any

from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.web.access.principals import EVERYONE
from rsmq.web.problems import HttpProblem
from rsmq.web.wording import ForPrograms

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
#: Categories of characters that are not seen, or that change how others are seen.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
#: Advice for people in the place of hints for programs.
_ADVICE = {
    "queueNotFound": "It may have been deleted, or it was not created yet.",
    "unauthorized": "Log in.",
}
#: Advice for people, if there is a hint for programs.
_INSTEAD = {
    "notFound": "The address may be mistyped, or of another version. "
    "The overview leads to all pages."
}
#: An en dash.
_NONE = "\u2013"


def show_number(value: float | None) -> str:
    """Return a number with separators, as in 84,211."""
    if value is None:
        return _NONE
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def show_rate(value: float | None) -> str:
    """Return a number per second."""
    if value is None:
        return _NONE
    if 0 < value < 0.1:  # noqa: PLR2004
        return "< 0.1"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"  # noqa: PLR2004


def show_duration(seconds: float | None) -> str:
    """Return a time in the unit that fits, as in 67 min."""
    if seconds is None:
        return _NONE
    if seconds < 1:
        return "< 1 s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} d"


def show_brief(seconds: float | None) -> str:
    """Return a time that may be short, in three digits, as in 4.3 ms and 1.25 s."""
    if seconds is None or seconds >= _MINUTE:
        return show_duration(seconds)
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"  # noqa: PLR2004


def show_bytes(value: float | None) -> str:
    """Return a size, as in 4.0 KiB."""
    if value is None:
        return _NONE
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:  # noqa: PLR2004
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def show_name(text: str) -> str:
    """Return a name or another text on one line, with escapes for characters that are not seen."""
    return "".join(
        each.encode("unicode_escape", "backslashreplace").decode()
        if unicodedata.category(each) in _UNSEEN
        else each
        for each in text
    )


def show_text(text: str) -> str:
    """Return a text of several lines, with escapes for characters that are not seen."""
    return "\n".join(show_name(line.replace("\t", "    ")) for line in text.split("\n"))


def show_value(value: object) -> str:
    """Return a value of JSON on several lines."""
    return show_text(json.dumps(value, ensure_ascii=False, indent=2))


def iso_time(ms: float) -> str:
    """Return a Unix time in ms for the attribute ``datetime``."""
    return _time_of(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_time(ms: float) -> str:
    """Return a Unix time in ms for a sentence: as ``show_clock``, with its zone."""
    return f"{show_clock(ms)} UTC"


def show_clock(ms: float) -> str:
    """Return a Unix time in ms as UTC: the time of day, with the date if it is another day."""
    at, today = _time_of(ms), datetime.now(UTC).date()
    return f"{at:%H:%M:%S}" if at.date() == today else f"{at:%Y-%m-%d %H:%M:%S}"


def seconds_since(ms: float) -> float:
    """Return the seconds since a Unix time in ms; negative if it is in the future."""
    return time.time() - ms / 1000


def plural(number: float, word: str) -> str:
    """Return a number with its noun, as in 1 message and 2 messages."""
    return f"{show_number(number)} {word}{'' if number == 1 else 's'}"


def were_released(number: int, owner: str) -> str:
    """Return how many messages of a queue or of a worker were released, as a sentence."""
    if not number:
        return f"No message of {owner} was hidden any more."
    return f"{plural(number, 'message')} of {owner} {'was' if number == 1 else 'were'} released."


def show_caller(name: str) -> str:
    """Return who has called; without a users file, it is not known who that was."""
    return "a caller" if name == EVERYONE.name else show_name(name)


_LAST_MS = 253_402_300_799_000  # the end of the year 9999


def _time_of(ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(ms, 0), _LAST_MS) / 1000, UTC)


def advice_of(problem: HttpProblem) -> str | None:
    """Return what a person can do about a problem; None if only a program can do it."""
    if problem.code in _ADVICE:
        return _ADVICE[problem.code]
    if isinstance(problem.hint, ForPrograms):
        return _INSTEAD.get(problem.code)
    return problem.hint


def show_facts(message: Any) -> list[tuple[str, str]]:
    """Return titles and texts of the facts of ``SHOWN_FACTS`` that a message has."""
    values = {each.name: message[each.name] for each in SHOWN_FACTS}
    texts = {
        name: show_name(value) if isinstance(value, str) else show_number(value)
        for name, value in values.items()
    }
    return [
        (each.title, each.shown.format(**texts))
        for each in SHOWN_FACTS
        if each.shown and values[each.name] is not None
    ]


FILTERS = {
    "facts": show_facts,
    "advice": advice_of,
    "number": show_number,
    "rate": show_rate,
    "duration": show_duration,
    "brief": show_brief,
    "size": show_bytes,
    "name": show_name,
    "caller": show_caller,
    "text": show_text,
    "value": show_value,
    "iso": iso_time,
    "clock": show_clock,
    "since": seconds_since,
    "plural": plural,
}
