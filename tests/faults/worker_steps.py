"""Calls of workers, and calls that use hashes beside a queue, while the slot of its keys moves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from rsmq import TEXT
from rsmq.control.operations import list_workers
from rsmq.explain.operations import read_message_state, read_queue_state
from rsmq.search.operations import SearchPosition, read_reasons, search_step
from rsmq.wire.keys import Namespace
from rsmq.wire.orders import Orders
from rsmq.worker.operations import (
    FollowingMessage,
    Identity,
    ReceiveRequest,
    Settlement,
    TrackedOutcome,
    count_unbegun,
    dead_letter_messages,
    finish_messages,
    forget_dead_worker,
    list_finished,
    list_in_flight,
    receive_for_worker,
    record_finished,
    record_quarantine_run,
    register_worker,
    send_heartbeat,
    settle_messages,
    unregister_worker,
)
from tests.faults.slot_steps import Step

#: The endings of the keys that scripts use without declaring them: users may lack the right to
#: them.
UNDECLARED = (":x:unbegun", "-dead:x:unbegun", ":x:retrying", ":x:alone", ":x:reasons", ":x:limits")

REASON = {"queue": "q", "text": "t", "exception": "E: e", "traceback": None}
REASON |= {"worker": "w", "attempts": 1}


@dataclass
class InFlight:
    """A worker, its queue, and a message of the queue."""

    worker: Identity
    queue: Any
    target: Any
    id: str


def prepare_in_flight(name, *, receives=1, has_reason=False, info=None):
    """
    Prepare a message that a worker has in flight, with an earlier receive that began no call, and
    with a run in quarantine of this receive. Other messages have records beside both queues.
    """

    def prepare(client, stored):
        namespace = Namespace(stored.ns)
        worker = Identity(namespace, f"worker-{name}", "token")
        queue, target = namespace.queue(name), namespace.queue(f"{name}-dead")
        client.run(register_worker(worker, info or {}, ttl=5, dead=""))
        for each in (name, target.name):
            client.create_queue(each)
            client.send_message(each, "another")
            client.receive_message(each, vt=1000)
            stored.put_beside(each, "unbegun", {"another": 7})
            stored.put_beside(each, "retrying", {"another": "7:other"})
            stored.put_beside(each, "alone", {"another": "7:9"})
            stored.put_beside(each, "reasons", {"another": "1:{}"})
        id = client.send_message(name, name)
        for vt_ms in [0] * (receives - 1) + [900_000]:
            receive = receive_for_worker(worker, [ReceiveRequest(queue, vt_ms, 1, 0, 1)], 1)
            if vt_ms or receives > 1:
                (result,) = client.run(receive)
                assert result.ids == [id]
        stored.put_beside(name, "unbegun", {id: 1})
        stored.put_beside(name, "alone", {id: f"2:{receives}"})
        if has_reason:
            reason = f"1:{json.dumps(REASON)}"
            stored.put_beside(name, "reasons", {id: reason})
        return InFlight(worker, queue, target, id)

    return prepare


def prepare_retrying(name):
    """Prepare the same, but waiting for a retry."""

    def prepare(client, stored):
        state = prepare_in_flight(name, receives=2)(client, stored)
        assert settle("retry", 900_000, "E: e")(client, state) == b"1"
        return state

    return prepare


def prepare_visible(name, **options):
    """Prepare the same, but visible again."""

    def prepare(client, stored):
        state = prepare_in_flight(name, **options)(client, stored)
        client.change_message_visibility(name, state.id, 0)
        return state

    return prepare


def settle(action, *values, has_records=True, tracked=None):
    def call(client, state):
        items = [(state.id, *values)] if values else [state.id]
        group = Settlement(state.queue, action, 2, items, has_records, tracked)
        return client.run(settle_messages(state.worker, [group]))

    return call


def finish(client, state):
    """Delete the message, and send another one to the target."""
    return client.run(
        finish_messages(
            state.worker,
            state.queue,
            2,
            [(state.id, FollowingMessage(state.target.name, b"next", 4))],
            has_records=True,
            tracked=TrackedOutcome("succeed", 60, [b"7"]),
        )
    )


def receive(client, state):
    request = ReceiveRequest(state.queue, 900_000, 1, 0, 1)
    return client.run(receive_for_worker(state.worker, [request], 1))


def receive_tracked(client, state):
    request = ReceiveRequest(state.queue, 900_000, 1, 0, 1, is_tracked=True)
    return client.run(receive_for_worker(state.worker, [request], 1))


def dead_letter(client, state, result_ttl=None):
    message = (state.id, 2, REASON)
    return client.run(
        dead_letter_messages(
            state.worker,
            state.queue,
            state.target,
            [message],
            quarantined=True,
            result_ttl=result_ttl,
        )
    )


def prepare_expired(name):
    """Prepare a visible message that is past its own expiry, and one in flight without limits."""

    def prepare(client, stored):
        client.create_queue(name)
        client.send_message(name, "another")
        client.receive_message(name, vt=1000)
        id = client.send_message(name, "expired")
        stored.raw.hset(f"{stored.ns}:{name}:Q", "x:limited", "1")
        stored.raw.hset(f"{stored.ns}:{name}:x:limits", id, ":1")
        return name

    return prepare


def check_expired(queue, result, stored):
    assert not result
    assert stored.bodies(queue) == [b"another"]


def prepare_old_limits(name):
    """Prepare a message whose record of limits in another queue is from an earlier stay there."""

    def prepare(client, stored):
        for each in (name, f"{name}-to"):
            client.create_queue(each)
            client.send_message(each, "another")
        id = client.send_message(name, "moved", unique_key="k")
        stored.raw.hset(f"{stored.ns}:{name}-to:Q", "x:limited", "1")
        stored.raw.hset(f"{stored.ns}:{name}-to:x:limits", id, ":1")
        return name, id

    return prepare


def check_moved(state, result, stored):
    name, id = state
    assert result == [id]
    assert stored.raw.hget(f"{stored.ns}:{name}-to:x:limits", id) is None
    assert stored.field(f"{name}-to", id) == b"moved"


def prepare_limited(name):
    """Prepare a visible message that was sent with its own number of retries."""

    def prepare(client, stored):
        state = prepare_visible(name)(client, stored)
        stored.raw.hset(f"{stored.ns}:{name}:Q", "x:limited", "1")
        stored.raw.hset(f"{stored.ns}:{name}:x:limits", state.id, "2:")
        return state

    return prepare


def check_limited(state, result, stored):
    check_receive(state, result, stored)
    assert result[0].max_retries == {0: 2}


def prepare_replaced(name):
    def prepare(client, stored):
        client.create_queue(name)
        client.send_message(name, "another")
        return name, client.send_message(name, "m", unique_key="k", expires=60)

    return prepare


def check_replaced(state, result, stored):
    name, id = state
    assert result == id
    assert stored.raw.hget(f"{stored.ns}:{name}:x:limits", id) is None
    assert stored.field(name, id) == b"new"


def with_record(check, **fields):
    """Return a check that also finds these fields in the record of the message."""

    def check_record(state, result, stored):
        check(state, result, stored)
        record = stored.fields(f"{state.queue.name}:x:job:{state.id}")
        assert {name: record.get(name.encode()) for name in fields} == fields

    return check_record


def prepare_cancelled(prepare):
    """Prepare the same message, whose job is to be cancelled."""

    def prepare_cancelled(client, stored):
        state = prepare(client, stored)
        key = f"{stored.ns}:{state.queue.name}:x:job:{state.id}"
        stored.raw.hset(key, mapping={"state": "running", "cancel": 1})
        return state

    return prepare_cancelled


def check_asked(state, result, stored):
    assert result == b"3"
    check_others(stored, state)


def check_cancelled(state, result, stored):
    assert result == b"1"
    assert state.id not in stored.ids(state.queue.name)
    check_others(stored, state)


def check_not_received(state, result, stored):
    (each,) = result
    assert each.ids == []
    assert state.id not in stored.ids(state.queue.name)
    check_others(stored, state)


def prepare_return(name):
    prepare_dead_letter = prepare_visible(name, has_reason=True)

    def prepare(client, stored):
        client.create_queue(REASON["queue"], exist_ok=True)
        return prepare_dead_letter(client, stored)

    return prepare


def in_flight(stored, state):
    return stored.raw.hget(f"{stored.ns}:x:held:{state.worker.name}", state.id)


def check_others(stored, state):
    for queue in (state.queue.name, state.target.name):
        assert stored.beside(queue, "unbegun")["another"] == b"7"
        assert stored.fields(f"{queue}:x:unbegun")[b""] == stored.field(queue, "created")
        assert stored.beside(queue, "retrying")["another"] == b"7:other"
        assert stored.fields(f"{queue}:x:retrying")[b""] == stored.field(queue, "created")
        assert stored.beside(queue, "alone")["another"] == b"7:9"
        assert stored.beside(queue, "reasons")["another"] == b"1:{}"


def check_receive(state, result, stored):
    (each,) = result
    assert each.ids == [state.id]
    count, first_ms, unbegun = each.redelivered[0]
    assert (count, unbegun) == (2, 1)
    assert first_ms is not None
    assert in_flight(stored, state) == f"2:{state.queue.name}".encode()
    check_others(stored, state)


def check_release(records, unbegun):
    def check(state, result, stored):
        assert result == b"1"
        assert stored.is_visible(state.queue.name, state.id)
        assert in_flight(stored, state) is None
        assert stored.beside(state.queue.name, "alone")[state.id] == records
        assert stored.beside(state.queue.name, "unbegun")[state.id] == unbegun
        check_others(stored, state)

    return check


def check_delete(state, result, stored):
    assert result == b"1"
    assert state.id not in stored.ids(state.queue.name)
    assert state.id not in stored.beside(state.queue.name, "alone")
    assert state.id not in stored.beside(state.queue.name, "unbegun")
    check_others(stored, state)


def check_next(state, result, stored):
    assert result == [b"1"]
    check_delete(state, b"1", stored)
    assert sorted(stored.bodies(state.target.name)) == [b"another", b"next"]
    assert in_flight(stored, state) is None


def check_hide(state, result, stored):
    assert result == b"1"
    assert state.id not in stored.beside(state.queue.name, "alone")
    assert stored.beside(state.queue.name, "unbegun")[state.id] == b"1"
    check_others(stored, state)


def check_retry(state, result, stored):
    check_hide(state, result, stored)
    assert stored.beside(state.queue.name, "retrying")[state.id] == b"2:E: e"
    assert in_flight(stored, state) is None


def check_error(message):
    assert (message.state, message.last_error) == ("retrying", "E: e")


def check_defer(state, result, stored):
    assert result == b"1"
    assert state.id not in stored.beside(state.queue.name, "alone")
    assert stored.beside(state.queue.name, "unbegun")[state.id] == b"2"
    assert in_flight(stored, state) is None
    check_others(stored, state)


def check_extend(state, result, stored):
    assert result == b"1"
    assert in_flight(stored, state) == f"2:{state.queue.name}".encode()
    check_others(stored, state)


def check_transfer(state, stored):
    queue, target = state.queue.name, state.target.name
    assert state.id not in stored.ids(queue)
    assert state.id in stored.ids(target)
    assert state.id not in stored.beside(queue, "unbegun")
    assert stored.beside(target, "unbegun")[state.id] == b"1"
    check_others(stored, state)


def check_dead_letter(state, result, stored):
    assert result == b"1"
    check_transfer(state, stored)
    assert state.id not in stored.beside(state.queue.name, "alone")
    assert state.id in stored.beside(state.target.name, "reasons")
    assert in_flight(stored, state) is None


def check_move(state, result, stored):
    assert result == [state.id]
    check_transfer(state, stored)


def prepare_finished(name):
    prepare_message = prepare_in_flight(name, receives=2)

    def prepare(client, stored):
        state = prepare_message(client, stored)
        assert client.run(record_finished(state.queue, [(state.id, 2, ["a"])])) == 1
        return state

    return prepare


def check_finished(state, result, stored):
    assert result == 1
    assert stored.beside(state.queue.name, "finished")[state.id] == b"a,b"
    check_others(stored, state)


def check_redrive(state, result, stored):
    assert len(result) == 1
    assert state.id not in stored.ids(state.queue.name)
    assert state.id not in stored.beside(state.queue.name, "reasons")


def check_message(state, message, stored):
    assert (message.id, message.reason.exception) == (state.id, "E: e")


def check_peek(state, result, stored):
    (message,) = [each for each in result if each.id == state.id]
    check_message(state, message, stored)


def check_beat(state, result, stored):
    assert result == Orders()
    check_name(state, None, stored)


def check_name(state, result, stored):
    assert result is None
    token = stored.fields("x:workers")[state.worker.name.encode()].split(b":")[1]
    assert token == b"token"


def check_unregister(state, result, stored):
    assert result == 1
    assert state.worker.name.encode() not in stored.fields("x:workers")


#: The reads of a message that waits for a retry, each with its call and its check.
RETRYING = (
    (
        "get",
        lambda c, s: c.get_message(s.queue.name, s.id),
        lambda _state, result, _stored: check_error(result),
    ),
    (
        "peek",
        lambda c, s: c.peek_messages(s.queue.name, state="retrying"),
        lambda _state, result, _stored: check_error(*result),
    ),
    (
        "search",
        lambda c, s: c.run(search_step(s.queue, SearchPosition(), codec=TEXT, state="retrying")),
        lambda _state, result, _stored: check_error(*(each.message for each in result.candidates)),
    ),
    (
        "count",
        lambda c, s: c.count_messages(s.queue.name),
        lambda _state, result, _stored: _equal((result.in_flight, result.retrying), (1, 1)),
    ),
)


def explain(client, state):
    return client.run(read_message_state(state.worker.namespace, state.queue.name, state.id))


def check_held(state, facts, stored):
    assert (facts.receive_count, facts.unbegun, facts.quarantine_runs) == (2, 1, 2)
    assert facts.holder.name == state.worker.name


def check_failed(state, facts, stored):
    assert (facts.unbegun, facts.last_error) == (1, "E: e")


def check_explained_death(state, facts, stored):
    assert facts.reason.exception == "E: e"


def check_own_limit(state, facts, stored):
    assert (facts.max_retries, facts.unbegun) == (2, 1)


def check_sample(state, facts, stored):
    assert (facts.hidden.in_flight, facts.hidden.retrying) == (1, 1)
    assert facts.can_see_workers


def check_reasons(state, result, stored):
    letters, _ = result
    assert "E: e" in [each.reason.exception for each in letters if each.reason is not None]


def prepare_name(name):
    return prepare_in_flight(name, receives=2)


STEPS = [
    Step(
        "explain: in flight",
        prepare_in_flight("x-held", receives=2, info={"queues": {"x-held": 1}}),
        explain,
        check_held,
    ),
    Step("explain: retrying", prepare_retrying("x-retrying"), explain, check_failed),
    Step(
        "explain: dead letter",
        prepare_visible("x-dead", has_reason=True),
        explain,
        check_explained_death,
    ),
    Step("explain: limited", prepare_limited("x-limited"), explain, check_own_limit),
    Step(
        "explain: queue",
        prepare_retrying("x-queue"),
        lambda client, state: client.run(
            read_queue_state(state.worker.namespace, state.queue.name)
        ),
        check_sample,
    ),
    Step(
        "dead letters: reasons",
        prepare_visible("x-reasons", has_reason=True),
        lambda client, state: client.run(read_reasons(state.queue, SearchPosition())),
        check_reasons,
    ),
    Step("worker: receive", prepare_visible("w-receive"), receive, check_receive),
    Step(
        "worker: release what began no call",
        prepare_in_flight("w-unbegun", receives=2),
        settle("unbegun", 2),
        check_release(b"1:0", b"2"),
    ),
    Step(
        "worker: release",
        prepare_in_flight("w-release", receives=2),
        settle("release"),
        check_release(b"1:0", b"1"),
    ),
    Step(
        "worker: delete", prepare_in_flight("w-delete", receives=2), settle("delete"), check_delete
    ),
    Step(
        "worker: hide", prepare_in_flight("w-hide", receives=2), settle("hide", 900_000), check_hide
    ),
    Step(
        "worker: retry",
        prepare_in_flight("w-retry", receives=2),
        settle("retry", 900_000, "E: e"),
        check_retry,
    ),
    *(
        Step(
            f"{name} of a message that waits for a retry",
            prepare_retrying(f"r-{name}"),
            call,
            check,
        )
        for name, call, check in RETRYING
    ),
    Step(
        "worker: defer",
        prepare_in_flight("w-defer", receives=2),
        settle("defer", 900_000, 2),
        check_defer,
    ),
    Step(
        "worker: extend",
        prepare_in_flight("w-extend", receives=2),
        settle("extend", 900_000, has_records=False),
        check_extend,
    ),
    Step(
        "worker: dead-letter",
        prepare_in_flight("w-letter", receives=2),
        dead_letter,
        check_dead_letter,
    ),
    Step(
        "receive of an expired message",
        prepare_expired("expired-one"),
        lambda c, name: c.receive_message(name),
        check_expired,
    ),
    Step(
        "sweep of an expired message",
        prepare_expired("expired-swept"),
        lambda c, name: c.sweep_expired(name, 1),
        lambda queue, result, stored: check_expired(queue, result[1:], stored),
    ),
    Step("worker: receive with limits", prepare_limited("w-limits"), receive, check_limited),
    Step(
        "move to a queue with limits",
        prepare_old_limits("limits-moved"),
        lambda c, state: c.move_messages(state[0], f"{state[0]}-to", [state[1]]),
        check_moved,
    ),
    Step(
        "replace without limits",
        prepare_replaced("limits-replaced"),
        lambda c, state: c.send_message(state[0], "new", unique_key="k", replace=True),
        check_replaced,
    ),
    Step(
        "worker: receive a tracked message",
        prepare_visible("w-begin"),
        receive_tracked,
        with_record(check_receive, state=b"running", attempt=b"1", receives=b"2"),
    ),
    Step(
        "worker: delete a tracked message",
        prepare_in_flight("w-succeed", receives=2),
        settle("delete", tracked=TrackedOutcome("succeed", 60, [b"7"])),
        with_record(check_delete, state=b"succeeded", result=b"7"),
    ),
    Step(
        "worker: delete a tracked message, and send the next one",
        prepare_in_flight("w-next", receives=2),
        finish,
        with_record(check_next, state=b"succeeded", result=b"7"),
    ),
    Step(
        "worker: dead-letter a tracked message",
        prepare_in_flight("w-fail", receives=2),
        partial(dead_letter, result_ttl=60),
        with_record(check_dead_letter, state=b"failed", error=b"E: e"),
    ),
    Step(
        "worker: extend a tracked message that is to be cancelled",
        prepare_cancelled(prepare_in_flight("w-asked", receives=2)),
        settle(
            "extend",
            900_000,
            has_records=False,
            tracked=TrackedOutcome("progress", 60, [b""], [b"3 10 text"]),
        ),
        with_record(check_asked, state=b"running", done=b"3", total=b"10", text=b"text"),
    ),
    Step(
        "worker: retry a tracked message that is to be cancelled",
        prepare_cancelled(prepare_in_flight("w-stopped", receives=2)),
        settle("retry", 900_000, "E: e", tracked=TrackedOutcome("retry", 60, [b"E: e"])),
        with_record(check_cancelled, state=b"cancelled", cancel=None),
    ),
    Step(
        "worker: receive a tracked message that is to be cancelled",
        prepare_cancelled(prepare_visible("w-not-begun")),
        receive_tracked,
        with_record(check_not_received, state=b"cancelled", cancel=None),
    ),
    Step(
        "worker: count receives that began no call",
        prepare_in_flight("w-count"),
        lambda c, s: c.run(count_unbegun(s.queue, [s.id, "another", "none"])),
        lambda _state, result, _stored: _equal(result, [1, 7, 0]),
    ),
    Step(
        "worker: record a run in quarantine",
        prepare_in_flight("w-record"),
        lambda c, s: c.run(record_quarantine_run(s.queue, s.id, 5)),
        lambda state, result, stored: _equal(
            (result, stored.beside(state.queue.name, "alone")[state.id]), (2, b"3:5")
        ),
    ),
    Step(
        "worker: record finished handlers",
        prepare_in_flight("w-finished", receives=2),
        lambda c, s: c.run(record_finished(s.queue, [(s.id, 2, ["a", "b"]), (s.id, 1, ["c"])])),
        check_finished,
    ),
    Step(
        "worker: list finished handlers",
        prepare_finished("w-list-finished"),
        lambda c, s: c.run(list_finished(s.queue, [s.id, "none"])),
        lambda _state, result, _stored: _equal(result, [["a"], []]),
    ),
    Step(
        "worker: register",
        prepare_name("w-register"),
        lambda c, s: c.run(register_worker(s.worker, {"a": 1}, ttl=60, dead="")),
        check_name,
    ),
    Step(
        "worker: heartbeat",
        prepare_name("w-beat"),
        lambda c, s: c.run(send_heartbeat(s.worker, {"a": 1}, ttl=60)),
        check_beat,
    ),
    Step(
        "worker: messages in flight",
        prepare_name("w-held"),
        lambda c, s: c.run_steps(list_in_flight(s.worker.namespace, s.worker.name)),
        lambda state, result, _stored: _equal(result, {"w-held": [(state.id, 2)]}),
    ),
    Step(
        "worker: list workers",
        prepare_name("w-list"),
        lambda c, s: c.run(list_workers(s.worker.namespace)),
        lambda state, result, _stored: _equal(state.worker.name in result[1], True),
    ),
    Step(
        "worker: unregister",
        prepare_name("w-leave"),
        lambda c, s: c.run(unregister_worker(s.worker)),
        check_unregister,
    ),
    Step(
        "worker: forget a dead worker",
        prepare_name("w-forget"),
        lambda c, s: c.run(
            forget_dead_worker(s.worker.namespace, s.worker.name, "another", delay_ms=0)
        ),
        lambda state, result, stored: _equal(
            (result, in_flight(stored, state)), (0, b"2:w-forget")
        ),
    ),
    Step(
        "worker: move with records",
        prepare_in_flight("w-move", receives=2),
        lambda c, s: c.move_messages(s.queue.name, s.target.name, [s.id]),
        check_move,
    ),
    Step(
        "worker: redrive with a reason",
        prepare_visible("w-redrive", has_reason=True),
        lambda c, s: c.redrive_messages(s.queue.name, s.target.name),
        check_redrive,
    ),
    Step(
        "worker: redrive to the queue that the reason names",
        prepare_return("w-return"),
        lambda c, s: c.redrive_messages(s.queue.name, ids=[s.id]),
        check_redrive,
    ),
    Step(
        "worker: get a message with its reason",
        prepare_visible("w-get", has_reason=True),
        lambda c, s: c.get_message(s.queue.name, s.id),
        check_message,
    ),
    Step(
        "worker: peek at a message with its reason",
        prepare_visible("w-peek", has_reason=True),
        lambda c, s: c.peek_messages(s.queue.name, count=10),
        check_peek,
    ),
]


def _equal(result, expected):
    assert result == expected
