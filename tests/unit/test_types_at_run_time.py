"""Type arguments of the public classes at run time, on every version of Python."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from typing import (
    Any,
    Generic,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import pytest

from rsmq import JSON, RSMQ, TEXT, AsyncRSMQ, Codec, Message, StoredMessage
from rsmq.codecs import check_codec
from rsmq.worker import Delivery, Worker

B = TypeVar("B")
PARTS = ("q", 32 * "a", b"5", 1, 0)


@pytest.mark.parametrize("cls", [Message, StoredMessage])
def test_a_message_is_made_with_a_type_argument(cls):
    # Python 3.11 and 3.12 raise TypeError here for an ordinary generic dataclass with frozen=True
    # and slots=True.
    message = cls[int](*PARTS, JSON)

    assert type(message) is cls
    assert message == cls(*PARTS)
    assert message.body == 5
    assert pickle.loads(pickle.dumps(message)) == message


def test_messages_stay_frozen():
    message = Message[int](*PARTS)

    with pytest.raises(dataclasses.FrozenInstanceError):
        message.id = "b"
    assert not hasattr(message, "__dict__")


@pytest.mark.parametrize("cls", [Message, StoredMessage, Delivery, RSMQ, AsyncRSMQ, Worker, Codec])
def test_classes_take_type_arguments(cls):
    alias = cls[int]

    assert get_origin(alias) is cls
    assert get_args(alias) == (int,)
    assert get_args(alias | None)[0] == alias
    assert cls[B][str] == cls[str]


def test_a_codec_takes_one_type_argument_or_two():
    assert get_args(Codec[int]) == (int,)
    assert get_args(Codec[int, str]) == (int, str)
    assert get_args(Codec[int] | None)[1] is type(None)


def test_annotations_are_resolved_at_run_time():
    def handle(codec: Codec[int] | None, message: Message[str], client: RSMQ[Any]) -> None: ...

    assert get_type_hints(handle)["codec"] == Codec[int] | None
    assert get_type_hints(handle)["message"] == Message[str]


def test_a_client_is_made_with_a_type_argument():
    with RSMQ[str].from_url("memory://types") as queues:
        assert type(queues) is RSMQ


def test_own_classes_inherit_from_the_generic_classes():
    class OwnCodec(Codec[int]):
        def encode(self, body):
            return str(body)

        def decode(self, raw):
            return int(raw)

    @runtime_checkable
    class Wider(Codec[int, int], Protocol):
        def name(self): ...

    class Shop(RSMQ[B], Generic[B]): ...

    codec = OwnCodec()

    assert check_codec(codec) is codec
    assert isinstance(TEXT, Codec)
    assert not isinstance(TEXT, Wider)
    with Shop[int].from_url("memory://types", codec=codec) as shop:
        assert type(shop) is Shop
        shop.create_queue("q", exist_ok=True)
        shop.send_message("q", 5)
        assert shop.pop_message("q").body == 5


def test_no_module_needs_typing_extensions():
    # Other packages may import it where it is installed. Here it can't be imported.
    program = (
        "import sys\n"
        "sys.modules['typing_extensions'] = sys.modules['opentelemetry'] = None\n"
        "import rsmq, rsmq.worker, rsmq.codecs\n"
        "rsmq.RSMQ, rsmq.AsyncRSMQ, rsmq.Message\n"
        "print('done')"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert ended.stdout == "done\n"
