"""What a type checker makes of the public interface. Checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

from rsmq import JSON, RSMQ, AsyncRSMQ, Message, QueueAttributes, StoredMessage


def synchronous(rsmq: RSMQ) -> None:
    """Results of the synchronous client."""
    assert_type(rsmq.create_queue("q", vt=1, exist_ok=True), bool)
    assert_type(rsmq.list_queues(), list[str])
    assert_type(rsmq.get_queue_attributes("q"), QueueAttributes)
    assert_type(rsmq.send_message("q", {"a": 1}, codec=JSON, delay=0.5), str)
    message = rsmq.receive_message("q", vt=60)
    assert_type(message, Message | None)
    if message is not None:
        assert_type(message.body, Any)
        assert_type(message.sent_ms, float | None)
        assert_type(rsmq.change_message_visibility(message, 120), bool)
        assert_type(rsmq.delete_message(message), bool)
    assert_type(rsmq.change_message_visibility("q", "id", vt=0), bool)
    assert_type(rsmq.delete_message("q", id="id"), bool)
    assert_type(rsmq.get_message("q", "id"), StoredMessage | None)
    assert_type(rsmq.purge_queue("q"), int)
    with RSMQ.from_url("memory://") as opened:
        assert_type(opened, RSMQ)
    rsmq.delete_message("q")  # type: ignore[call-overload]
    rsmq.delete_message(rsmq.get_message("q", "id"))  # type: ignore[call-overload]


async def asynchronous(rsmq: AsyncRSMQ) -> None:
    """Results of the asyncio client."""
    assert_type(await rsmq.send_message("q", "m"), str)
    assert_type(await rsmq.pop_message("q"), Message | None)
    assert_type(await rsmq.set_queue_attributes("q", maxsize=-1), QueueAttributes)
    async with AsyncRSMQ.from_url("memory://") as opened:
        assert_type(opened, AsyncRSMQ)
