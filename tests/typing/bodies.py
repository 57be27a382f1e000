"""The types of bodies, by codec. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_type

import redis
import redis.asyncio
from pydantic import BaseModel

from rsmq import BYTES, JSON, MSGPACK, RSMQ, TEXT, AsyncRSMQ, Codec, Message, StoredMessage
from rsmq.codecs import dataclass_codec, pydantic_codec
from rsmq.opentelemetry import instrument_client

B = TypeVar("B")


class Invoice(BaseModel):
    """A pydantic model."""

    number: int


@dataclass
class Order:
    """A dataclass."""

    number: int


class OrderCodec:
    """A codec of an application; it inherits from nothing."""

    def encode(self, body: Order) -> str:
        """Return the text of an order."""
        return str(body.number)

    def decode(self, raw: bytes) -> Order:
        """Return the order of a text."""
        return Order(int(raw))


class NumberCodec(Codec[int]):
    """A codec that inherits from the interface."""

    def encode(self, body: int) -> str:
        """Return the digits of a number."""
        return str(body)

    def decode(self, raw: bytes) -> int:
        """Return the number of these digits."""
        return int(raw)


def clients_from_urls(url: str) -> None:
    """Check the types of clients by their codecs."""
    assert_type(RSMQ.from_url(url), RSMQ[str])
    assert_type(RSMQ.from_url(url, ns="a", realtime=True, password="b"), RSMQ[str])
    assert_type(RSMQ.from_url(url, codec=TEXT), RSMQ[str])
    assert_type(RSMQ.from_url(url, codec=BYTES), RSMQ[bytes])
    assert_type(RSMQ.from_url(url, codec=JSON), RSMQ[Any])
    assert_type(RSMQ.from_url(url, codec=MSGPACK), RSMQ[Any])
    assert_type(RSMQ.from_url(url, codec=pydantic_codec(Invoice)), RSMQ[Invoice])
    assert_type(RSMQ.from_url(url, codec=dataclass_codec(Order)), RSMQ[Order])
    assert_type(RSMQ.from_url(url, codec=OrderCodec()), RSMQ[Order])
    assert_type(RSMQ.from_url(url, codec=NumberCodec()), RSMQ[int])
    assert_type(AsyncRSMQ.from_url(url), AsyncRSMQ[str])
    assert_type(AsyncRSMQ.from_url(url, codec=JSON), AsyncRSMQ[Any])
    assert_type(AsyncRSMQ.from_url(url, codec=OrderCodec()), AsyncRSMQ[Order])
    RSMQ.from_url(url, codec="json")  # type: ignore[call-overload]
    RSMQ.from_url(url, codec=None)  # type: ignore[call-overload]


def clients_from_clients(client: redis.Redis, async_client: redis.asyncio.Redis) -> None:
    """Check the constructors."""
    assert_type(RSMQ(client), RSMQ[str])
    assert_type(RSMQ(client, codec=TEXT), RSMQ[str])
    assert_type(RSMQ(client, codec=BYTES, ns="a"), RSMQ[bytes])
    assert_type(RSMQ(client, codec=JSON), RSMQ[Any])
    assert_type(RSMQ(client, codec=dataclass_codec(Order)), RSMQ[Order])
    assert_type(AsyncRSMQ(async_client), AsyncRSMQ[str])
    assert_type(AsyncRSMQ(async_client, codec=OrderCodec()), AsyncRSMQ[Order])
    assert_type(instrument_client(RSMQ(client, codec=BYTES)), RSMQ[bytes])
    RSMQ(client, codec="json")  # type: ignore[call-overload]
    with RSMQ(client, codec=BYTES) as entered:
        assert_type(entered, RSMQ[bytes])
    assert_type(entered.codec, Codec[Any, bytes])


def the_clients_codec(queues: RSMQ[Order]) -> None:
    """Check that bodies have the type of the client."""
    assert_type(queues.receive_message("q"), Message[Order] | None)
    assert_type(queues.receive_message("q", codec=None), Message[Order] | None)
    assert_type(queues.receive_messages(["q"], 5), list[Message[Order]])
    assert_type(queues.pop_message("q"), Message[Order] | None)
    assert_type(queues.pop_messages("q", 5), list[Message[Order]])
    assert_type(queues.recover_messages("q", 5, idle=1), list[Message[Order]])
    assert_type(queues.get_message("q", "id"), StoredMessage[Order] | None)
    assert_type(queues.peek_messages("q"), list[StoredMessage[Order]])
    for message in queues.receive_messages("q", 5):
        assert_type(message.body, Order)
        assert_type(message.raw, bytes)
        print(message.body.numer)  # type: ignore[attr-defined]
        queues.delete_message(message)
        queues.send_message("q", message.body)
        queues.send_message("q", "any value", codec=TEXT)


def the_codec_of_a_call(queues: RSMQ) -> None:
    """Check that the codec of a call decides, also if the client's type is not known."""
    codec = OrderCodec()
    assert_type(queues.receive_message("q"), Message | None)
    assert_type(queues.receive_message("q", codec=codec), Message[Order] | None)
    assert_type(queues.receive_messages("q", 5, wait=None, codec=codec), list[Message[Order]])
    assert_type(queues.pop_message("q", codec=codec), Message[Order] | None)
    assert_type(queues.pop_messages("q", 5, codec=codec), list[Message[Order]])
    assert_type(queues.recover_messages("q", 5, idle=1, codec=codec), list[Message[Order]])
    assert_type(queues.get_message("q", "id", codec=codec), StoredMessage[Order] | None)
    assert_type(queues.peek_messages("q", codec=codec), list[StoredMessage[Order]])
    assert_type(queues.receive_message("q", codec=BYTES), Message[bytes] | None)
    assert_type(queues.receive_message("q", codec=JSON), Message[Any] | None)
    queues.receive_message("q", codec="json")  # type: ignore[call-overload]


def loops(queues: RSMQ[str], number: Codec[int] | None) -> None:
    """Check consume and processing."""
    with queues.consume("q") as texts:
        for text in texts:
            assert_type(text, Message[str])
            with queues.processing(text) as same:
                assert_type(same, Message[str])
    with queues.consume(["q", "p"], batch=5, codec=OrderCodec()) as orders:
        for order in orders:
            assert_type(order, Message[Order])
    with queues.consume("q", codec=number) as either:
        for message in either:
            assert_type(message.body, int | str)
    queues.consume("q", codec="json")  # type: ignore[call-overload]


async def the_asyncio_client(queues: AsyncRSMQ[str]) -> None:
    """Check the same of the asyncio client."""
    codec = OrderCodec()
    assert_type(await queues.receive_message("q"), Message[str] | None)
    assert_type(await queues.receive_message("q", codec=codec), Message[Order] | None)
    assert_type(await queues.receive_messages("q", 5), list[Message[str]])
    assert_type(await queues.receive_messages("q", 5, codec=codec), list[Message[Order]])
    assert_type(await queues.pop_message("q", codec=codec), Message[Order] | None)
    assert_type(await queues.pop_messages("q", 5, codec=codec), list[Message[Order]])
    assert_type(await queues.recover_messages("q", 5, idle=1), list[Message[str]])
    assert_type(await queues.get_message("q", "id"), StoredMessage[str] | None)
    assert_type(await queues.peek_messages("q", codec=codec), list[StoredMessage[Order]])
    async with queues.consume("q", codec=codec) as orders:
        async for order in orders:
            async with queues.processing(order) as same:
                assert_type(same, Message[Order])
    async with queues.consume("q") as texts:
        async for text in texts:
            assert_type(text.body, str)
    async with queues as entered:
        assert_type(entered, AsyncRSMQ[str])


def a_codec_that_may_be_none(
    queues: RSMQ[str], number: Codec[int] | None, plain: Codec | None, exact: Codec[Order, Order]
) -> None:
    """Check codecs of which only the type is known, and that None means the client's."""
    message = queues.receive_message("q", codec=number)
    if message is not None:
        assert_type(message.body, int | str)
    for one in queues.receive_messages("q", 5, codec=number):
        assert_type(one.body, int | str)
    assert_type(queues.receive_message("q", codec=exact), Message[Order] | None)
    if plain is not None:
        assert_type(queues.receive_message("q", codec=plain), Message[Any] | None)
        assert_type(plain.decode(b""), Any)
    if number is not None:
        assert_type(number.decode(b""), int)
        number.encode("a")  # type: ignore[arg-type]


def a_codec_of_any_body(codec: Codec[B], queues: RSMQ) -> B | None:
    """Check a generic function of an application."""
    message = queues.receive_message("q", codec=codec)
    return None if message is None else message.body


def codecs_of_classes(order: Order, mapping: Mapping[str, int]) -> None:
    """Check the codecs of classes."""
    assert_type(dataclass_codec(Order), Codec[Order, Order])
    assert_type(pydantic_codec(Invoice), Codec[Invoice, Invoice])
    assert_type(dataclass_codec(Order).encode(order), str | bytes)
    dataclass_codec(Order).encode(mapping)  # type: ignore[arg-type]
    pydantic_codec(Order)  # type: ignore[type-var]
    TEXT.encode(5)  # type: ignore[arg-type]
    BYTES.encode("text")  # type: ignore[arg-type]


def messages_are_covariant(
    flag: Message[bool], flags: RSMQ[bool], several: list[Message[str]], plain: Message
) -> None:
    """Check which types are accepted in the place of others."""
    as_number: Message[int] = flag
    as_any: Message = flag
    from_any: Message[Order] = plain
    client: RSMQ[int] = flags
    any_list: list[Message] = several
    text: Message[str] = flag  # type: ignore[assignment]
    flags.delete_messages([flag])
    flags.delete_messages(several)
    print(as_number, as_any, from_any, client, any_list, text)


def messages_by_hand() -> None:
    """Check messages that the tests of an application make."""
    assert_type(Message[int]("q", "id", b"5", 1, 0, NumberCodec()).body, int)
    assert_type(Message("q", "id", b"5", 1, 0, NumberCodec()), Message[int])
    assert_type(StoredMessage[Order]("q", "id", b"5", 0, None, OrderCodec()).body, Order)


class Shop(RSMQ):
    """A client of an application."""

    def send_order(self, order: Order) -> str:
        """Send an order."""
        return self.send_message("orders", order, codec=OrderCodec())


class TypedShop(RSMQ[Order]):
    """A client of an application whose bodies are orders."""


class GenericShop(RSMQ[B], Generic[B]):
    """A client of an application with any bodies."""


def subclasses(client: redis.Redis, url: str) -> None:
    """Check what subclasses are: the constructor keeps the class, ``from_url`` forgets it."""
    assert_type(Shop(client), Shop)
    assert_type(Shop(client, codec=OrderCodec()), Shop)
    assert_type(TypedShop(client, codec=OrderCodec()), TypedShop)
    assert_type(TypedShop(client, codec=OrderCodec()).pop_message("q"), Message[Order] | None)
    TypedShop(client)  # pyright: ignore[reportCallIssue] - mypy accepts it
    TypedShop(client, codec=BYTES)  # type: ignore[arg-type]
    with Shop(client) as entered:
        assert_type(entered, Shop)
        assert_type(entered.send_order(Order(5)), str)
    assert_type(Shop.from_url(url), RSMQ[str])
    assert_type(TypedShop.from_url(url, codec=OrderCodec()), RSMQ[Order])
    assert_type(instrument_client(Shop(client)), Shop)
