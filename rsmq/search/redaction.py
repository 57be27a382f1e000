"""
Redaction: what a caller sees of a body, if values at some paths are not for it.

A body that can't be searched for the paths is not shown at all: bytes, text that is not JSON, and
a string of JSON. In an envelope (``EnvelopeCodec``) the paths hold for the envelope and for its
body.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from rsmq.headers import ENVELOPE_FIELDS, split_trace_line
from rsmq.model import DeadLetterReason
from rsmq.search.json_path import ANY, JsonPath, members_at

#: What is shown in place of a value.
MARK = "[redacted]"


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
        before = raw[: len(raw) - len(split_trace_line(raw)[1])]
        repeated: list[str] = []

        def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(pairs)
            # The values of a name that is there twice are in the text, but not in the dict.
            if len(made) < len(pairs):
                repeated.append("")
            return made

        try:
            text = raw[len(before) :].decode()
            value = json.loads(text, object_pairs_hook=make, parse_constant=_refuse)
            if isinstance(value, str):
                return None
            redacted = self.value(value)
            if redacted == value and not repeated:
                return raw
            return before + json.dumps(redacted, separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return None

    def value(self, value: Any) -> Any:
        """Return a value of JSON with the values at the paths replaced; raises RecursionError."""
        if not self.paths:
            return value
        value = deepcopy(value)
        is_envelope = (
            isinstance(value, dict)
            and value.keys() == ENVELOPE_FIELDS
            and isinstance(value["headers"], dict)
        )
        for path in self.paths:
            value = _redact(value, path)
            if is_envelope and isinstance(value, dict):
                body = value["body"]
                value["body"] = MARK if isinstance(body, str) else _redact(body, path)
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


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _redact(value: Any, path: JsonPath) -> Any:
    """Return a value with those at a path replaced, as ``find_values`` finds them."""
    if not path:
        return MARK
    part, rest = path[0], path[1:]
    if isinstance(value, list):
        for at, each in enumerate(value):
            within = _redact(each, path)
            is_named = part is ANY or part == str(at)
            value[at] = _redact(within, rest) if is_named else within
    elif isinstance(value, dict):
        for name in members_at(value, part):
            value[name] = _redact(value[name], rest)
    return value
