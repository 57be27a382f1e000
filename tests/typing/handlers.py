"""The types of handlers and middleware. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, assert_type

from bodies import Invoice, Order, OrderCodec

from rsmq import BYTES, JSON, MSGPACK, RSMQ, Codec, Message
from rsmq.codecs import dataclass_codec, pydantic_codec
from rsmq.worker import Delivery, Middleware, Router, Worker, current_message, event_payload


def workers(text: RSMQ[str], orders: RSMQ[Order], plain: RSMQ) -> None:
    """Check that a worker has the type of its client."""
    assert_type(Worker(text), Worker[str])
    assert_type(Worker(orders, name="w", concurrency=2), Worker[Order])
    assert_type(Worker(plain), Worker[Any])
    assert_type(Worker(RSMQ.from_url("memory://")), Worker[str])
    with Worker(orders) as worker:
        assert_type(worker, Worker[Order])


def the_clients_codec(worker: Worker[str]) -> None:
    """Check handlers of bodies that the client's codec decodes."""

    @worker.listener("a")
    def both(body: str, message: Delivery) -> int:
        return len(body) + message.attempt

    @worker.listener("b", vt=30, max_retries=3, backoff=[1, 2], drop=True)
    def only_body(body: str) -> None: ...

    @worker.listener("c")
    def wider(body: str | bytes, message: Delivery[str]) -> None: ...

    @worker.listener("d")
    def base(body: object, message: Message[object]) -> None: ...

    @worker.listener("e")
    def optional(body: str, message: Delivery | None = None) -> None: ...

    @worker.listener("f")
    async def task(body: str, message: Delivery) -> bool:
        return message.lease_lost

    @worker.listener("g", batch=10)
    def batch(bodies: list[str], messages: list[Delivery[str]]) -> None: ...

    @worker.listener("g-full", batch=(10, 5))
    def full_batch(bodies: list[str]) -> None: ...

    @worker.listener("h", batch=10)
    async def batch_task(bodies: Sequence[str]) -> None: ...

    @worker.listener("i")
    @worker.listener("j")
    def two_queues(body: str) -> None: ...

    worker.listener("k")(partial(only_body))
    worker.listener("l")(Handler())
    worker.listener("m")(Handler().handle)
    worker.listener("n")(lambda body: body.upper())

    @worker.listener("o")  # type: ignore[arg-type]
    def wrong(body: int) -> None: ...

    @worker.listener("p")  # type: ignore[arg-type]
    async def wrong_task(body: bytes, message: Delivery) -> None: ...

    @worker.listener("q", batch=10)  # type: ignore[arg-type]
    def wrong_batch(body: str) -> None: ...

    @worker.listener("r")  # type: ignore[arg-type]
    def wrong_single(bodies: list[str]) -> None: ...

    @worker.listener("s")  # type: ignore[arg-type]
    def no_parameter() -> None: ...

    worker.listener("t", batch="many")  # type: ignore[call-overload]
    worker.listener("u", codec="json")  # type: ignore[call-overload]

    # Handlers stay functions that a test calls.
    async def call_task() -> None:
        assert_type(await task("a", delivery()), bool)

    assert_type(both("a", delivery()), int)
    optional("a")
    optional("a", message=None)
    both("a", "b")  # type: ignore[arg-type]
    as_callable: Callable[[str, Delivery], int] = both
    print(call_task, as_callable, wider, base, batch, full_batch, batch_task, two_queues)
    print(wrong, wrong_task, wrong_batch, wrong_single, no_parameter)


class Handler:
    """Handlers that are objects and methods."""

    def __call__(self, body: str) -> None:
        """Handle a body."""

    def handle(self, body: str, message: Delivery) -> None:
        """Handle a body and its message."""


def the_codec_of_a_listener(worker: Worker[str], maybe: Codec[Order] | None) -> None:
    """Check handlers of bodies that the listener's own codec decodes."""

    @worker.listener("a", codec=OrderCodec())
    def order(body: Order, message: Delivery[Order]) -> None:
        assert_type(message.body, Order)

    @worker.listener("b", codec=dataclass_codec(Order))
    async def order_task(body: Order) -> None: ...

    @worker.listener("c", codec=pydantic_codec(Invoice), batch=5)
    def invoices(bodies: list[Invoice], messages: list[Delivery]) -> None: ...

    @worker.listener("d", codec=BYTES)
    def raw(body: bytes) -> None: ...

    @worker.listener("e", codec=JSON)
    def anything(body: dict[str, int]) -> None: ...

    @worker.listener("f", codec=MSGPACK, batch=5)
    def any_list(bodies: list[dict[str, int]], messages: list[Delivery]) -> None: ...

    @worker.listener("g", codec=OrderCodec())  # type: ignore[arg-type]
    def wrong(body: str) -> None: ...

    @worker.listener("h", codec=dataclass_codec(Order))  # type: ignore[arg-type]
    def wrong_class(body: Invoice, message: Delivery) -> None: ...

    @worker.listener("i", codec=pydantic_codec(Invoice), batch=5)  # type: ignore[arg-type]
    def wrong_batch(body: Invoice) -> None: ...

    @worker.listener("j", codec=JSON, batch=5)  # type: ignore[arg-type]
    def not_a_list(body: dict[str, int]) -> None: ...

    # None is the codec of the client.
    @worker.listener("k", codec=maybe, vt=5)
    def either(body: Order | str, message: Delivery) -> None: ...

    @worker.listener("l", codec=maybe, batch=5)
    def either_list(bodies: list[str | Order]) -> None: ...

    @worker.listener("m", codec=maybe)  # type: ignore[arg-type]
    def wrong_if_none(body: Order) -> None: ...

    print(order, order_task, invoices, raw, anything, any_list, either, either_list)
    print(wrong, wrong_class, wrong_batch, not_a_list, wrong_if_none)


def a_worker_of_any_client(worker: Worker) -> None:
    """Check that nothing is required if the type of the client is not known."""

    @worker.listener("a")
    def number(body: int) -> None: ...

    @worker.listener("b", codec=OrderCodec())  # type: ignore[arg-type]
    def wrong(body: str) -> None: ...

    print(number, wrong)


def order_type(order: Order) -> tuple[str | None, Any]:
    """Return the route of an order."""
    return "order", order.number


def routers(worker: Worker[str]) -> None:
    """Check that a route accepts the decoded body. Its handlers accept any payload."""
    assert_type(worker.router("a", by=event_payload), Router)
    router = worker.router("b", by=order_type, codec=OrderCodec())

    @router.on("order")
    def order(number: int, message: Delivery) -> int:
        return number

    assert_type(order(number=5, message=delivery()), int)
    worker.router("c", by=lambda body: (body.partition(":")[0], body))
    worker.router("d", by=order_type)  # type: ignore[arg-type]
    worker.router("e", by=order_type, codec=BYTES)  # type: ignore[arg-type]


class Narrow(Middleware):
    """A middleware that annotates its messages as deliveries."""

    def before_start(self, worker: Worker) -> None:
        """See Middleware."""

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        """See Middleware."""

    def before_handle(self, message: Delivery[Any]) -> None:
        """See Middleware."""
        assert_type(message.lease_lost, bool)

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:
        """See Middleware."""
        assert_type(message.body, Any)

    def after_drop(self, message: Delivery, reason: str, error: BaseException) -> None:
        """See Middleware."""


class Wide(Middleware):
    """A middleware that annotates its messages as messages, as before."""

    def after_handle(self, message: Message, error: BaseException | None, seconds: float) -> None:
        """See Middleware."""

    def after_delete(self, messages: Sequence[Message]) -> None:
        """See Middleware."""


class Wrong(Middleware):
    """A middleware with wrong annotations."""

    def after_handle(self, message: str, error: BaseException | None, seconds: float) -> None:  # type: ignore[override]
        """See Middleware."""


def middleware(queues: RSMQ) -> None:
    """Check that a worker accepts them."""
    Worker(queues, middleware=[Narrow(), Wide()]).use(Wrong())
    assert_type(current_message(), Delivery | None)


def delivery() -> Delivery:
    """Return the message of the running handler."""
    message = current_message()
    assert message is not None
    return message
