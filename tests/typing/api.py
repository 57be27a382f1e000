"""The types of the public interface. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from rsmq import (
    JSON,
    RSMQ,
    AsyncPartitions,
    AsyncRSMQ,
    Confirm,
    Message,
    MessageCounts,
    Partitions,
    QueueAttributes,
    StoredMessage,
)
from rsmq.worker import Delivery, Worker, event_payload, exponential


def synchronous(rsmq: RSMQ) -> None:
    """Check the results of the synchronous client."""
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
    assert_type(rsmq.send_messages("q", ["a", "b"], front=True), list[str])
    received = rsmq.receive_messages(["q", "p"], 10, wait=None)
    assert_type(received, list[Message])
    assert_type(rsmq.pop_messages("q", 1, wait=0.5), list[Message])
    assert_type(rsmq.delete_messages(received), list[str])
    assert_type(rsmq.delete_messages("q", ["id"]), list[str])
    assert_type(rsmq.change_messages_visibility(received, 5), list[str])
    assert_type(rsmq.change_messages_visibility("q", ["id"], vt=5), list[str])
    assert_type(rsmq.release_messages(received), list[str])
    assert_type(rsmq.release_all_messages("q"), int)
    assert_type(rsmq.recover_messages("q", 5, idle=60), list[Message])
    assert_type(rsmq.peek_messages("q", -5, 5, state="in_flight"), list[StoredMessage])
    assert_type(rsmq.count_messages("q"), MessageCounts)
    assert_type(rsmq.count_messages("q").retrying, int)
    assert_type(rsmq.peek_messages("q", state="retrying")[0].last_error, str | None)
    assert_type(rsmq.set_dead_letter_policy("q", "dead", 5), QueueAttributes)
    assert_type(rsmq.set_queue_limits("q", max_running=5, rate="9/s"), QueueAttributes)
    assert_type(rsmq.sweep_dead_letters("q"), list[str])
    assert_type(rsmq.redrive_messages("dead"), list[tuple[str, str]])
    assert_type(rsmq.move_messages(received, "p"), list[str])
    assert_type(rsmq.move_messages("q", "p", ["id"]), list[str])
    rsmq.peek_messages("q", state="hidden")  # type: ignore[call-overload]
    rsmq.delete_messages("q")  # type: ignore[arg-type]
    with RSMQ.from_url("memory://") as opened:
        assert_type(opened, RSMQ[str])
    minute = timedelta(minutes=1)
    assert_type(rsmq.send_message("q", "m", delay=minute), str)
    assert_type(rsmq.publish(["q"], "m", deliver_at=datetime.now(UTC)), dict[str, str])
    assert_type(rsmq.send_message("q", "m", timeout=2.0), str)
    assert_type(rsmq.send_message("q", "m", unique_key="k", replace=True, max_wait=minute), str)
    assert_type(rsmq.send_messages("q", ["m"], timeout=minute), list[str])
    rsmq.send_message("q", "m", timeout="2")  # type: ignore[arg-type]
    assert_type(RSMQ.from_url("memory://").with_reply_timeout(minute), RSMQ[str])
    copies = Confirm(replicas=1, timeout=minute, fsync=True)
    assert_type(copies.timeout, float)
    assert_type(rsmq.send_message("q", "m", confirm=copies), str)
    assert_type(rsmq.move_messages("q", "p", ["id"], confirm=copies), list[str])
    rsmq.send_message("q", "m", confirm=1)  # type: ignore[arg-type]
    rsmq.send_message("q", "m", replicas=1)  # type: ignore[call-arg]
    rsmq.send_message("q", "m", deliver_at=minute)  # type: ignore[arg-type]
    with rsmq.consume(["q", "p"], wait=minute, batch=5) as messages:
        for each in messages:
            assert_type(each, Message)
            with rsmq.processing(each) as same:
                assert_type(same, Message)
    rsmq.delete_message("q")  # type: ignore[call-overload]
    rsmq.delete_message(rsmq.get_message("q", "id"))  # type: ignore[call-overload]


async def asynchronous(rsmq: AsyncRSMQ) -> None:
    """Check the results of the asyncio client."""
    assert_type(await rsmq.send_message("q", "m"), str)
    assert_type(await rsmq.send_message("q", "m", timeout=2.0), str)
    assert_type(await rsmq.pop_message("q", wait=5), Message | None)
    assert_type(await rsmq.receive_messages("q", 5, wait=None), list[Message])
    assert_type(await rsmq.count_messages("q"), MessageCounts)
    assert_type(await rsmq.set_queue_attributes("q", maxsize=-1), QueueAttributes)
    async with rsmq.consume("q") as messages:
        async for each in messages:
            assert_type(each, Message)
            async with rsmq.processing(each) as same:
                assert_type(same, Message)
    with rsmq.consume("q"):  # type: ignore[attr-defined]
        pass
    async with AsyncRSMQ.from_url("memory://") as opened:
        assert_type(opened, AsyncRSMQ[str])


def partitions(shop: Partitions) -> None:
    """Check the results of partitions."""
    assert_type(shop.create_queue("q", vt=1, exist_ok=True), bool)
    assert_type(shop.send_message("q", "a", key="k", delay=1), str)
    assert_type(shop.send_messages("q", ["a", "b"], key="k"), list[str])
    assert_type(shop.client_for("k"), RSMQ[Any])
    assert_type(shop.clients[0].pop_message("q"), Message[Any] | None)
    assert_type(shop.namespaces, tuple[str, ...])
    shop.send_message("q", "a")  # type: ignore[call-arg]


async def partitions_of_asyncio(shop: AsyncPartitions) -> None:
    """Check the results of partitions of asyncio."""
    assert_type(await shop.create_queue("q"), bool)
    assert_type(await shop.send_message("q", "a", key="k"), str)
    assert_type(shop.client_for("k"), AsyncRSMQ[Any])
    async with AsyncPartitions.from_url("memory://", ns="shop", count=3) as opened:
        assert_type(opened, AsyncPartitions)


def workers(rsmq: RSMQ) -> None:
    """Check that decorated functions keep their types."""
    worker = Worker(rsmq, name="w", concurrency=8)

    @worker.listener("q", backoff=exponential(first=1, cap=300), no_retry=ValueError, drop=True)
    def handle(body: str, message: Delivery) -> None:
        assert_type(message.lease_lost, bool)

    called: Callable[[str, Delivery], None] = handle
    handle(5)  # type: ignore[call-arg]
    called("m", "no message")  # type: ignore[arg-type]
    router = worker.router("p", by=event_payload, backoff=[1, 5, 30], max_retries=3, drop=True)

    @router.on("paid")
    async def paid(body: str) -> int:
        return len(body)

    worker.listener("r", backoff="soon")  # type: ignore[arg-type]
    assert_type(worker.numbers.handled, int)
