"""Commands are sent in the bytes that hiredis would make of them."""

from __future__ import annotations

import hiredis
import pytest

from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import load
from rsmq.transport.commands import evalsha_command
from rsmq.transport.packing import pack_small_call

KEYS = (b"rsmq:q:Q", b"rsmq:q")


def call(*args, keys=KEYS):
    return Operation(load("send_message"), keys, args, len, RetryClass.NEVER)


@pytest.mark.parametrize(
    "args",
    [
        (),
        (b"",),
        (b"%d %b\r\n", b"\x00\xff", "ä".encode()),
        (b"%d %b\r\n", b"", b"x" * 9, "ä".encode(), b"\x00\xff"),
        (b"x" * 20_000, b"1"),
        tuple(b"%d" % number for number in range(26)),
    ],
    ids=["none", "empty", "bytes", "of a send", "large", "many"],
)
@pytest.mark.parametrize("keys", [KEYS, (), (b"rsmq:%s",)], ids=len)
def test_a_small_call_has_the_bytes_of_hiredis(args, keys):
    operation = call(*args, keys=keys)

    assert pack_small_call(operation) == (hiredis.pack_command(evalsha_command(operation)),)


def test_calls_that_differ_only_in_the_number_of_arguments_are_not_mixed_up():
    for args in ((b"1",), (b"1", b"2"), (b"1",)):
        operation = call(*args)

        assert pack_small_call(operation) == (hiredis.pack_command(evalsha_command(operation)),)


def test_a_call_of_many_arguments_is_not_packed_here():
    assert pack_small_call(call(*[b"1"] * 27)) is None
    assert pack_small_call(call(keys=KEYS * 15)) is None


def test_an_operation_is_packed_once():
    operation = call(b"1")

    assert pack_small_call(operation) is pack_small_call(operation)
