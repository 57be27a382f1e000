"""Batches of calls, without a server: which calls, and what each gets from the replies."""

from __future__ import annotations

import asyncio
from itertools import accumulate

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, NoScriptError, ResponseError

from rsmq import TEXT
from rsmq.operations import messages
from rsmq.operations.coalescing import KINDS, MAX_BEGUN_BYTES, MAX_CALLS, group_of
from rsmq.operations.lost_replies import LostReplies
from rsmq.transport.asyncio_.requests import BatchRequest, CallRequest, Coalescer, NotSent, Request
from rsmq.wire.keys import Namespace

NS = Namespace()
LARGE = "x" * 8192


class Batches:
    """Requests of a loop, and the batches that are made of them."""

    def __init__(self, loop):
        self.loop = loop
        self.coalescer = Coalescer()
        self.loaded = set(KINDS)

    def requests(self, operations):
        return [CallRequest(self.loop, each) for each in operations]

    def coalesce(self, requests):
        found = list(self.coalescer.coalesce(self.loop, requests, self.loaded))
        passed = [1 if each in requests else len(each.calls) for each, _ in found]
        assert [number for _, number in found] == list(accumulate(passed))
        return [each for each, _ in found]

    def batch(self, *operations):
        """Return the only batch of the operations, and their requests."""
        requests = self.requests(operations)
        (found,) = self.coalesce(requests)
        assert isinstance(found, BatchRequest)
        return found, requests


@pytest.fixture
def batches():
    loop = asyncio.new_event_loop()
    yield Batches(loop)
    loop.close()


def send(body="m", qname="q", *, realtime=False, **options):
    return messages.send_message(NS, qname, body, options, codec=TEXT, realtime=realtime)


def receive(qname="q", vt=None):
    return messages.receive_message(NS, qname, vt=vt, codec=TEXT, losses=LostReplies())


@pytest.mark.parametrize(
    "operation",
    [
        send(realtime=True),
        send(front=True),
        send(dedup_id="one"),
        receive(vt=0),
        messages.get_message(NS, "q", "i" * 32, codec=TEXT),
    ],
    ids=["realtime", "front", "dedup_id", "vt=0", "get"],
)
def test_calls_that_are_always_sent_alone(operation):
    assert group_of(operation) is None


def test_calls_of_a_group_have_the_same_queue_and_times():
    assert group_of(send()) == group_of(send("other")) != group_of(send(LARGE))
    assert group_of(send()) != group_of(send(delay=1))
    assert group_of(send()) != group_of(send(qname="p"))
    assert group_of(receive()) == group_of(receive()) != group_of(receive(vt=1))
    deletes = [messages.delete_message(NS, "q", each * 32) for each in "ij"]
    assert group_of(deletes[0]) == group_of(deletes[1]) != group_of(receive())


def test_only_consecutive_calls_are_in_a_batch_and_none_is_left_out(batches):
    requests = batches.requests([send(), send(), receive(), send(), send(), send()])
    found = batches.coalesce(requests)
    calls = [each.calls if isinstance(each, BatchRequest) else each for each in found]
    assert calls == [requests[:2], requests[2], requests[3:]]


def is_in_two_steps(batch):
    return batch.commands[0] == (b"MULTI",)


def test_requests_behind_first_steps_are_sent_with_them(batches):
    large = [*[send(LARGE)] * 4, *[send(LARGE, qname="p")] * 4, *[send(LARGE)] * 4]
    requests = batches.requests([send(), *large, send(), receive("r")])
    found = batches.coalesce(requests)
    assert [found[0], *found[4:]] == [requests[0], *requests[-2:]]
    assert [each.calls for each in found[1:4]] == [requests[1:5], requests[5:9], requests[9:13]]
    assert all(is_in_two_steps(each) for each in found[1:4])
    # Also if they are sent again.
    assert batches.coalesce(found) == found


def test_large_bodies_that_a_later_call_may_look_for_are_sent_in_one_step(batches):
    pop = messages.pop_message(NS, "p", codec=TEXT, losses=LostReplies())
    sends = [[send(LARGE, qname=name)] * 4 for name in "qpqp"]
    requests = batches.requests([*sends[0], receive(), *sends[1], *sends[2], pop, *sends[3]])
    found = batches.coalesce(requests)
    assert [found[1], found[4]] == [requests[4], requests[13]]
    assert [is_in_two_steps(found[at]) for at in (0, 2, 3, 5)] == [False, False, True, True]
    requests.append(Request(batches.loop, [(b"PING",)]))
    assert [is_in_two_steps(batches.coalesce(requests)[at]) for at in (3, 5)] == [False, False]


def test_first_steps_that_are_sent_together_have_a_bounded_number_of_bytes(batches):
    large = [send("x" * 100_000)] * (MAX_BEGUN_BYTES // 100_000 + 20)
    found = batches.coalesce(batches.requests(large))
    begun = sum(len(each.calls) for each in found if is_in_two_steps(each))
    assert MAX_BEGUN_BYTES - 1_000_000 < begun * 100_000 <= MAX_BEGUN_BYTES
    assert sum(len(each.calls) for each in found) == len(large)


def test_few_large_bodies_and_huge_ones_are_sent_alone(batches):
    few = batches.requests([send(LARGE)] * 3 + [receive()])
    assert batches.coalesce(few) == few
    huge = batches.requests([send("x" * 131_072)] * 9)
    assert batches.coalesce(huge) == huge


def test_calls_of_a_script_that_the_server_may_lack_are_sent_alone(batches):
    batches.loaded.clear()
    requests = batches.requests([send(), send()])
    assert batches.coalesce(requests) == requests


def test_a_batch_has_a_bounded_number_of_calls_and_bytes(batches):
    many = batches.requests([send()] * (MAX_CALLS + 2))
    found = batches.coalesce(many)
    assert [len(each.calls) for each in found] == [MAX_CALLS, 2]
    large = batches.requests([send("x" * 131_000)] * 10)
    assert len(batches.coalesce(large)[0].calls) == 8
    assert batches.coalesce(large)[1:] == large[8:]


def test_an_operation_that_two_calls_run_at_the_same_time_sends_two_messages(batches):
    operation = send()
    batch, requests = batches.batch(operation, operation, send())
    batch.add_reply([b"0123456789", 65_536])
    ids = [each.replies[0] for each in requests]
    assert ids == sorted(set(ids))


def test_a_missing_script_is_sent_again_as_text(batches):
    batch, requests = batches.batch(send(), send())
    assert batch.commands[0][0] == b"EVAL"
    assert batches.batch(send(), send())[0].commands[0][0] == b"EVALSHA"
    assert batch.add_reply(NoScriptError("No matching script"))
    assert batch.unfinished == (batch,)
    assert batch.commands[0][0] == b"EVAL"
    assert batch.add_reply([b"0" * 10, -1])
    assert batch.unfinished == []
    assert [len(each.replies[0]) for each in requests] == [32, 32]
    assert requests[0].replies < requests[1].replies


def test_after_an_error_each_call_is_sent_alone(batches):
    batch, requests = batches.batch(send(), send())
    batch.add_reply(ResponseError("OOM command not allowed"))
    assert batch.unfinished == requests
    assert not any(each.is_done for each in requests)
    assert batches.coalesce(requests) == requests
    later = batches.requests([send(), send()])
    assert batches.coalesce(later) == later
    assert batches.batch(send(qname="p"), send(qname="p"))


def test_calls_are_sent_alone_for_twice_as_long_after_each_further_failure(batches, monkeypatch):
    times = {"now": 0.0}
    monkeypatch.setattr(batches.loop, "time", lambda: times["now"])

    def are_alone():
        requests = batches.requests([send(), send()])
        return batches.coalesce(requests) == requests

    def fail_two():
        """Fail two batches, the second one of which was sent before the first one had failed."""
        for batch, _ in (batches.batch(send(), send()), batches.batch(send(), send())):
            batch.add_reply(ResponseError("OOM command not allowed"))

    for seconds in (10, 20, 40):
        fail_two()
        times["now"] += seconds - 1
        assert are_alone()
        times["now"] += 1
        assert not are_alone()
    batches.batch(send(), send())[0].add_reply([b"0" * 10, -1])
    fail_two()
    times["now"] += 10
    assert not are_alone()


def test_receives_without_room_are_sent_again(batches):
    batch, requests = batches.batch(receive(), receive(), receive())
    batch.add_reply([b"5", 1, [1], [b"i" * 32, b"m"], []])
    assert requests[0].replies == [[b"i" * 32, b"m", 1, b"5"]]
    assert batch.unfinished == requests[1:]
    again = batches.coalesce(requests[1:])
    again[0].add_reply([b"5", 1, [0], [], []])
    assert again[0].unfinished == requests[1:]
    assert batches.coalesce(requests[1:]) == requests[1:]


def test_receives_are_sent_alone_if_a_batch_has_room_for_few(batches):
    batch, requests = batches.batch(*[receive()] * 5)
    batch.add_reply([b"5", 1, [1], [b"i" * 32, b"m"], []])
    assert batches.coalesce(batch.unfinished) == requests[1:]


def test_a_cancelled_pop_without_room_is_not_sent_again(batches):
    pop = messages.pop_message(NS, "q", codec=TEXT, losses=LostReplies())
    batch, requests = batches.batch(pop, pop, pop)
    requests[1].future.cancel()
    batch.add_reply([b"5", 1, [b"i" * 32, b"m"], []])
    assert batch.unfinished == requests[2:]
    assert requests[1].is_done


def test_a_first_step_that_breaks_has_sent_nothing_and_a_second_one_may_have(batches):
    broken = RedisConnectionError("broken")
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    batch.fail(broken)
    assert [type(each.replies[0]) for each in requests] == [NotSent] * 4

    batches.coalescer = Coalescer()
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    begin(batch)
    assert list(batch.pack())
    batch.fail(broken)
    assert [each.replies for each in requests] == [[broken]] * 4


def begin(batch, maxsize=-1):
    """Answer the first step."""
    for reply in (b"OK", b"QUEUED", [[b"0" * 10, maxsize]]):
        batch.add_reply(reply)
    assert batch.unfinished == (batch,)


def test_a_second_step_that_breaks_before_it_was_packed_has_sent_nothing(batches):
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    begin(batch)
    batch.fail(RedisConnectionError("broken"))
    assert [type(each.replies[0]) for each in requests] == [NotSent] * 4


def test_calls_that_were_cancelled_since_the_first_step_are_left_out_of_the_second(batches):
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    begin(batch)
    requests[1].future.cancel()
    packed = b"".join(batch.pack())
    assert packed.count(LARGE.encode()) == 3
    for reply in (b"OK", b"QUEUED", b"QUEUED", [2, 1]):
        batch.add_reply(reply)
    assert not batch.unfinished
    assert [len(each.replies[0]) for each in (requests[0], *requests[2:])] == [32] * 3


def test_a_second_step_of_cancelled_calls_only_is_not_sent(batches):
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    begin(batch)
    for each in requests:
        each.future.cancel()
    assert not list(batch.pack())


def test_bodies_that_are_too_long_are_left_out_of_both_steps(batches):
    batch, requests = batches.batch(send(LARGE), send(LARGE + "x"), send(LARGE), send(LARGE))
    begin(batch, maxsize=8192)
    assert list(batch.pack())
    (_, hset, *_) = batch.commands
    assert hset[3::2] == (LARGE.encode(),) * 3
    for reply in (b"OK", b"QUEUED", b"QUEUED", [2, 1]):
        batch.add_reply(reply)
    assert str(requests[1].replies[0]) == "MESSAGETOOLONG 8193 8192"
    assert [len(each.replies[0]) for each in (requests[0], *requests[2:])] == [32] * 3


@pytest.mark.parametrize("has_run", [True, False])
def test_a_second_step_without_multi_is_never_sent_again_if_it_has_run(batches, has_run):
    batch, requests = batches.batch(*[send(LARGE)] * 4)
    begin(batch)
    assert list(batch.pack())
    refused = NoPermissionError("no right to multi")
    for reply in (refused, *([2, 1] if has_run else [refused] * 2), refused):
        batch.add_reply(reply)
    if has_run:
        assert [each.replies for each in requests] == [[refused]] * 4
        assert not batch.unfinished
    else:
        assert batch.unfinished == requests
