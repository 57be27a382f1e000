"""
JSON of requests, which no other reader may read otherwise: no name twice, no NaN.

The scanner in C holds the interpreter until it has ended, for a second with 24 MiB. The one in
Python, which reads a large text, takes longer, but lets other threads run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from json import decoder, scanner
from typing import Any

from rsmq.errors import show
from rsmq.web.fields import Refused
from rsmq.wire.json_constants import refuse_constant

#: A longer text is large.
LARGE_BYTES = 1024 * 1024
#: Members and elements in a large text: many short ones take fifty times the memory of their text.
MAX_VALUES = 500_000


def decode(text: str) -> Any:
    """
    Return a value of JSON.

    Raises:
        Refused: an object has a name twice, or a large text has too many values.
        ValueError, RecursionError: the text is not JSON, or nested too deeply.
    """
    return (_DECODER if len(text) <= LARGE_BYTES else _LargeDecoder()).decode(text)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is there twice: a proxy in front may have checked the other value."""
    made = dict(pairs)
    if len(made) != len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise Refused(
            "repeatedField", f"The field {show(name)} is there twice", status=400, value=name
        )
    return made


class _LargeDecoder(json.JSONDecoder):
    """A decoder for one text."""

    def __init__(self) -> None:
        super().__init__(parse_constant=refuse_constant, object_pairs_hook=_make_object)
        self._left = MAX_VALUES
        self.parse_object = self._parse_object
        self.parse_array = self._parse_array
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    def _parse_object(self, where: Any, strict: bool, scan: Callable[..., Any], *rest: Any) -> Any:  # noqa: FBT001
        return decoder.JSONObject(where, strict, self._counted(scan), *rest)  # type: ignore[attr-defined]

    def _parse_array(self, where: Any, scan: Callable[..., Any]) -> Any:
        return decoder.JSONArray(where, self._counted(scan))  # type: ignore[attr-defined]

    def _counted(self, scan: Callable[..., Any]) -> Callable[..., Any]:
        def scan_one(text: str, at: int) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Refused(
                    "requestTooLong", f"The body has more than {MAX_VALUES:,} values", status=413
                )
            return scan(text, at)

        return scan_one


#: With these options, json.loads would make a decoder each time.
_DECODER = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=_make_object)
