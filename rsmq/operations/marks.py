"""
Marks of moments, such as deploys: entries of the audit stream, which charts show.
"""

from __future__ import annotations

from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.plain import Word, plain_command
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_label
from rsmq.wire.names import decode_name

#: Entries of the audit stream that are kept, at least; Redis removes older ones in blocks.
MAX_AUDIT_ENTRIES = 10_000
#: The field ``call`` of a mark.
MARK_CALL = "POST /marks"


def add_mark(
    namespace: Namespace, text: object, by: object = None, address: str = ""
) -> Operation[str]:
    """
    Mark this moment.

    Args:
        text: 1 to 128 characters.
        by: who or what marks it, 1 to 128 characters; None is not known.
        address: where the call came from.

    Raises:
        InvalidFormat: text or by is not such a text.
    """
    facts: dict[str, Word] = {
        "user": b"" if by is None else check_label("by", by),
        "address": address,
        "call": MARK_CALL,
        "queue": "",
        "target": check_label("text", text),
        "phase": "end",
        "outcome": "201",
    }
    words = [word for pair in facts.items() for word in pair]
    return plain_command(
        "XADD", namespace.audit, "MAXLEN", "~", MAX_AUDIT_ENTRIES, "*", *words,
        parse=decode_name, retry=RetryClass.NEVER,
    )  # fmt: skip
