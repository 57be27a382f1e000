"""
Marks of moments, such as deploys: entries of the audit stream, which charts show.
"""

from __future__ import annotations

from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.plain import plain_command
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_label
from rsmq.wire.names import decode_name, encode_name

#: Entries of the audit stream that are kept, at least; Redis removes older ones in blocks.
MAX_AUDIT_ENTRIES = 10_000
#: The field ``call`` of a mark.
MARK_CALL = "POST /marks"


def mark_facts(text: object, by: object = None, address: str = "") -> dict[str, str]:
    """
    Return the fields of the entry of a mark.

    Args:
        text: 1 to 128 characters.
        by: who or what marks it, 1 to 128 characters; None is not known.
        address: where the call came from.

    Raises:
        InvalidFormat: text or by is not such a text.
    """
    return {
        "user": "" if by is None else decode_name(check_label("by", by)),
        "address": address,
        "call": MARK_CALL,
        "queue": "",
        "target": decode_name(check_label("text", text)),
        "phase": "end",
        "outcome": "201",
    }


def add_mark(namespace: Namespace, text: object, by: object) -> Operation[str]:
    """Mark this moment; see ``mark_facts``."""
    words = [encode_name(word) for pair in mark_facts(text, by).items() for word in pair]
    return plain_command(
        "XADD", namespace.audit, "MAXLEN", "~", MAX_AUDIT_ENTRIES, "*", *words,
        parse=decode_name, retry=RetryClass.NEVER,
    )  # fmt: skip
