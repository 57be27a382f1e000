"""
Operations on the stored states of push targets.
"""

from __future__ import annotations

from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import Namespace

load = loader_of("webhooks")


def change_push_target(
    namespace: Namespace, target: str, expected: bytes, state: bytes
) -> Operation[tuple[int, bytes]]:
    """
    Read the stored state of a push target, and replace it if it is still the expected one.

    The change has happened if the result has the new state. A repeated call changes nothing more.

    Args:
        target: the target's field.
        expected: the state that is replaced; empty is none.
        state: the new state; empty deletes it; the same as ``expected`` only reads.

    Returns:
        The server's time, Unix ms, and the state that is stored then; empty if there is none.
    """
    return Operation(
        load("change_push_target"),
        (namespace.push_targets,),
        (target.encode(), expected, state),
        lambda reply: (int(reply[0]), reply[1]),
        RetryClass.ALWAYS,
    )


def list_push_targets(namespace: Namespace) -> Operation[tuple[int, dict[str, bytes]]]:
    """Return the server's time, Unix ms, and the stored state of each push target by its field."""
    return Operation(
        load("list_push_targets"),
        (namespace.push_targets,),
        (),
        lambda reply: (
            int(reply[0]),
            {
                field.decode(errors="replace"): state
                for field, state in zip(reply[1][::2], reply[1][1::2], strict=True)
            },
        ),
        RetryClass.ALWAYS,
    )
