"""
Arguments of a send for each option of the table, with the options that it needs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rsmq.vocabulary.sends import SEND_OPTIONS, ValueKind

AT = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)

_VALUES = {
    ValueKind.SECONDS: 5, ValueKind.TIME: AT, ValueKind.FLAG: True, ValueKind.WHOLE_NUMBER: 2,
    ValueKind.RATE: "1000000/s",
}  # fmt: skip
#: Options whose values are not those of their kind.
_OWN = {"dedup_window": {"dedup_id": "d", "dedup_window": 9000}, "expires": {"expires": 9_000_000}}
_TABLE = {each.name: each for each in SEND_OPTIONS}


def _make_example(name, needed_by=None):
    option = _TABLE[name]
    value = name[0] if option.kind is ValueKind.LABEL else _VALUES[option.kind]
    found = {}
    for one_of in option.needs:
        if needed_by not in one_of:
            found |= _make_example(one_of[0], needed_by=name)
    return _OWN.get(name) or {**found, name: value}


#: The arguments by option.
EXAMPLES = {name: _make_example(name) for name in _TABLE}
