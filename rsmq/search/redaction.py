"""
Redaction: what a caller sees of a body, if values at some paths are not for it.

A body that can't be searched for the paths is not shown at all: bytes, text, and JSON that is
neither an object nor a list. In an envelope (``EnvelopeCodec``) the paths hold for the envelope and
for its body, also in an envelope within it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from rsmq.model import DeadLetterReason
from rsmq.search.json_path import BEGIN, JsonPath, PathSteps
from rsmq.wire.envelopes import ENVELOPE_FIELDS
from rsmq.wire.json_constants import refuse_constant

#: The text in place of a value.
MARK = "[redacted]"
#: A body with more envelopes around it is not shown.
_MAX_ENVELOPES = 8


@dataclass(frozen=True, slots=True)
class Redaction:
    """The paths whose values are not shown; without one, all is."""

    paths: tuple[JsonPath, ...] = ()

    def __bool__(self) -> bool:
        """Return whether it may change anything."""
        return bool(self.paths)

    def body(self, raw: bytes) -> bytes | None:
        """Return the body as the caller sees it; None if it is withheld."""
        if not self.paths:
            return raw
        try:
            return self._rewrite(raw)
        except (ValueError, RecursionError):
            return None

    def _rewrite(self, raw: bytes) -> bytes:
        """Return JSON as the caller sees it; raises ValueError or RecursionError if withheld."""
        repeated: list[str] = []

        def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(pairs)
            # The values of a name that is there twice are in the text, but not in the dict.
            if len(made) < len(pairs):
                repeated.append("")
            return made

        value = json.loads(
            raw.decode(),
            object_pairs_hook=make,
            parse_constant=refuse_constant,
            parse_float=_Number,
            parse_int=_Number,
        )
        redacted = self.redacted(value)
        if redacted is MARK:
            raise ValueError("no names")
        return raw if redacted == value and not repeated else _write(redacted).encode()

    def result(self, raw: bytes | None) -> Any:
        """Return the result of a job, a value of JSON, as the caller sees it; None without one."""
        value = None if raw is None else json.loads(raw)
        if not self.paths or value is None:
            return value
        try:
            return self.redacted(value)
        except RecursionError:
            return MARK

    def redacted(self, value: Any, envelopes: int = _MAX_ENVELOPES) -> Any:
        """Return a value with those at the paths replaced; itself too, if it has no names."""
        if not isinstance(value, dict | list):
            return MARK
        if (
            isinstance(value, dict)
            and value.keys() == ENVELOPE_FIELDS
            and isinstance(value["headers"], dict)
        ):
            # First, because a path may replace what makes its body an envelope.
            body = self.redacted(value["body"], envelopes - 1) if envelopes else MARK
            value = {**value, "body": body}
        for path in self.paths:
            value = _redact(value, PathSteps(path))
        return value

    def failure(self, text: str | None) -> str | None:
        """Return the text of an exception, which may quote values: only its type is shown."""
        if not self.paths or text is None:
            return text
        kind, colon, _ = text.partition(":")
        is_kind = bool(colon) and all(each.isidentifier() for each in kind.split("."))
        return f"{kind}: {MARK}" if is_kind else MARK

    def reason(self, reason: DeadLetterReason | None) -> DeadLetterReason | None:
        """Return the reason of a dead letter without texts that may quote values."""
        if not self.paths or reason is None:
            return reason
        return replace(
            reason,
            text=MARK,
            exception=self.failure(reason.exception),
            traceback=None if reason.traceback is None else MARK,
            answer=None if reason.answer is None else MARK,
        )


class _Number(str):
    """A number of JSON as it is written, which a float may not keep."""

    __slots__ = ()


def _write(value: Any) -> str:
    """Return JSON, with the numbers as they were."""
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{_write(value[name])}" for name in value)
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_write, value))}]"
    return value if isinstance(value, _Number) else json.dumps(value)


def _redact(value: Any, steps: PathSteps, places: int = BEGIN) -> Any:
    """Return a value with those at a path replaced, as ``find_values`` finds them."""
    if steps.is_end(places):
        return MARK
    if isinstance(value, list) and places:
        return [_redact(each, steps, steps.of_element(places, at)) for at, each in enumerate(value)]
    if isinstance(value, dict) and places:
        return {
            name: _redact(each, steps, steps.of_member(places, name))
            for name, each in value.items()
        }
    return value
