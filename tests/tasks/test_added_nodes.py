"""Nodes that a running node adds to its flow."""

from __future__ import annotations

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.errors import FlowFailed, NotPossible
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT, Tasks, chain, current_flow, group
from rsmq.worker import Retry
from tests.tasks import process_app


@pytest.fixture
def calls(tasks):
    """Declare tasks; return what they have been called with."""
    calls = []

    @tasks.task(queue="a", name="double", track=True)
    def double(x: int) -> int:
        calls.append(("double", x))
        return 2 * x

    @tasks.task(queue="b", name="total", track=True)
    async def total(numbers: list[int | None]) -> int:
        calls.append(("total", numbers))
        return sum(each or 0 for each in numbers)

    @tasks.task(queue="b", name="split", track=True)
    def split(numbers: list[int], awaited: bool = False) -> int:
        flow = current_flow()
        calls.append(("split", numbers))
        parts = [flow.add(double.signature(each), awaited=awaited) for each in numbers]
        flow.add(total.signature(RESULT(parts)), awaited=awaited)
        return len(numbers)

    @tasks.task(queue="c", name="report", track=True)
    def report(text: object = None) -> str:
        calls.append(("report", text))
        return f"report {text}"

    @tasks.task(queue="c", name="fail", track=True, max_retries=0)
    def fail() -> None:
        raise ValueError("no")

    tasks.double, tasks.total, tasks.split = double, total, split
    tasks.report, tasks.fail = report, fail
    return calls


def fields(tasks, id):
    key = tasks.client.namespace.flow(id)
    names = tasks.client.run(plain_command("HKEYS", key))
    return dict(zip(names, tasks.client.run(plain_command("HMGET", key, *names)), strict=True))


def test_a_node_adds_nodes_that_follow_it(tasks, calls):
    flow = chain(tasks.split.signature([1, 2, 3])).send()
    tasks.run_all()
    assert calls == [
        ("split", [1, 2, 3]), ("double", 1), ("double", 2), ("double", 3), ("total", [2, 4, 6])
    ]  # fmt: skip
    status = flow.status()
    assert (status.state, status.total, status.done) == ("succeeded", 5, 5)
    assert {name: number for name, number in status.counts.items() if number} == {"succeeded": 5}
    nodes = flow.nodes()
    assert [each.task for each in nodes] == ["split", "double", "double", "double", "total"]
    assert [each.after for each in nodes] == [(), (0,), (0,), (0,), (1, 2, 3)]
    assert [each.is_added for each in nodes] == [False, True, True, True, True]
    assert flow.result(0) == 3  # of the nodes that it was sent with
    assert nodes[4].raw_result == b"12"


def test_followers_wait_for_awaited_nodes_only(tasks, calls):
    for awaited in (True, False):
        calls.clear()
        flow = chain(tasks.split.signature([1, 2], awaited), tasks.report.signature(RESULT)).send()
        tasks.run_all()
        names = [name for name, _ in calls]
        assert sorted(names) == ["double", "double", "report", "split", "total"]
        if awaited:
            assert names[-1] == "report"
        assert calls[-1 if awaited else names.index("report")] == ("report", 2)
        assert flow.result(0) == "report 2"
        assert flow.status().total == 5
        assert flow.nodes()[1].after == ((0, 2, 3, 4) if awaited else (0,))


def test_the_stored_fields(tasks, calls, raw):
    @tasks.task(queue="b", name="later", track=True)
    def later() -> None:
        flow = current_flow()
        two = flow.add(tasks.double.options(delay=60).signature(2))
        flow.add(tasks.report.signature(RESULT(two)), awaited=True)
        flow.add(tasks.total.options(delay=60).signature([]), awaited=True)

    flow = tasks.flow()
    first = flow.add(later.signature())
    flow.add(tasks.report.signature("end"), after=first)
    sent = flow.send()
    tasks.run_all()
    found, id = fields(tasks, sent.id), sent.id.encode()
    assert found[b"0:t"] == b"1,2,4"
    assert found[b"1:n"] == b"2"
    assert found[b"1:d"].split(b" ")[2] == b"0,3,4"
    assert [found[b"%d:t" % number] for number in (2, 3, 4)] == [b"3+", b"1+", b"1+"]
    assert found[b"3:n"] == b"1"
    assert found[b"3:d"].partition(b" 2 1 c")[2] == (
        b'{"task":"report","args":{"text":\x012\x01},"flow":{"id":"%b","node":3}}' % id
    )
    assert raw("a") == [
        f'{{"task":"double","args":{{"x":2}},"flow":{{"id":"{sent.id}","node":2}}}}'
    ]
    assert found[b"2:s"].startswith(b"sent ")
    assert found[b"4:s"].startswith(b"sent ")
    assert b"3:s" not in found
    assert [found[name] for name in (b"nodes", b"declared", b"unsucceeded")] == [b"5", b"2", b"1"]
    assert [found[name] for name in (b"pending", b"sent")] == [b"2", b"2"]
    assert found[b"ends"] == b"1"
    record = tasks.client.namespace.queue("a").job(sent.nodes()[2].id)
    assert tasks.client.run(plain_command("HGET", record, "flow")) == (
        tasks.client.namespace.flow(sent.id) + b" 2"
    )
    assert sent.cancel() == "cancelled"
    assert sent.status().counts == {
        "pending": 0, "sent": 0, "succeeded": 1, "failed": 0, "cancelled": 2, "expired": 0,
        "skipped": 2,
    }  # fmt: skip


def test_an_attempt_that_fails_adds_nothing_and_the_next_one_adds_once(tasks, calls):
    attempts = []

    @tasks.task(queue="b", name="flaky", track=True)
    def flaky() -> None:
        attempts.append(len(attempts))
        current_flow().add(tasks.report.signature(len(attempts)))
        if len(attempts) < 3:
            raise Retry(after=0)

    flow = chain(flaky.signature()).send()
    tasks.run_all()
    assert calls == [("report", 3)]
    assert flow.status().total == 2


def test_queues_of_added_nodes_are_created(tasks, calls):
    other = [tasks.task(queue=f"new{number}", name=f"new{number}", track=True) for number in (1, 2)]
    first, second = other[0](lambda: calls.append(1)), other[1](lambda: calls.append(2))

    @tasks.task(queue="b", name="begin", track=True)
    def begin() -> None:
        for name in ("new1", "new2"):
            tasks.client.delete_queue(name)
        for each in (first, second):
            current_flow().add(each.signature())

    flow = chain(begin.signature()).send()
    worker = tasks.worker()
    worker.run(until_empty=True, raise_errors=True, timeout=30)
    assert flow.status().total == 3
    assert {"new1", "new2"} <= set(tasks.client.list_queues())
    tasks.run_all()
    assert sorted(calls) == [1, 2]


def test_failures_of_added_nodes_count_as_those_of_others(tasks, calls):
    @tasks.task(queue="b", name="begin", track=True)
    def begin(awaited: bool) -> None:
        current_flow().add(tasks.fail.signature(), awaited=awaited)

    stopped = chain(begin.signature(True), tasks.report.signature()).send()
    side = tasks.flow(on_failure="continue")
    side.add(begin.signature(True))
    side.add(tasks.report.signature("after"), after=side.nodes)
    side = side.send()
    end = chain(begin.signature(False)).send()
    with pytest.raises(ValueError, match="no"):
        tasks.run_all()
    tasks.worker().run(until_empty=True, timeout=30)
    assert [each.state.value for each in stopped.nodes()] == ["succeeded", "skipped", "failed"]
    assert stopped.status().state == "failed"
    assert [each.state.value for each in side.nodes()] == ["succeeded", "succeeded", "failed"]
    assert side.status().state == "succeeded"  # no end of it has failed
    assert calls == [("report", "after")]
    assert end.status().state == "failed"
    with pytest.raises(FlowFailed, match=r"fail \(node 1\) has failed: ValueError: no"):
        end.result(0)


def test_nodes_of_a_flow_that_was_cancelled_meanwhile_are_not_added(tasks, calls):
    @tasks.task(queue="b", name="begin", track=True)
    def begin() -> None:
        flow = current_flow()
        flow.add(tasks.report.signature())
        tasks.client.flow(flow.id).cancel()

    flow = chain(begin.signature()).send()
    tasks.run_all()
    assert (flow.status().state, flow.status().total, calls) == ("cancelled", 1, [])


def test_finally_may_add_nodes(tasks, calls):
    @tasks.task(queue="b", name="last", track=True)
    def last() -> None:
        current_flow().add(tasks.report.signature("last"))

    flow = group(tasks.double.signature(1), finally_=last.signature()).send()
    tasks.run_all()
    assert calls == [("double", 1), ("report", "last")]
    assert (flow.status().state, flow.status().total, flow.result(0)) == ("succeeded", 3, [2])


def test_more_nodes_than_a_flow_may_have_are_refused(tasks, calls):
    key = tasks.client.namespace.flow

    @tasks.task(queue="b", name="begin", track=True)
    def begin() -> None:
        flow = current_flow()
        tasks.client.run(plain_command("HSET", key(flow.id), "nodes", "9999"))
        for number in range(1000):
            flow.add(tasks.report.signature(number))
        with pytest.raises(InvalidValue, match="number of nodes must be between 1 and 1000"):
            flow.add(tasks.report.signature())

    flow = chain(begin.signature()).send()
    tasks.worker().run(until_empty=True, timeout=30)
    tasks.client.run(plain_command("HSET", key(flow.id), "nodes", "1"))
    with pytest.raises(FlowFailed, match="number of nodes must be between 1 and 10000, not 10999"):
        flow.result(0)
    assert calls == []


def test_bodies_have_a_limit(tasks, calls):
    @tasks.task(queue="b", name="begin", track=True)
    def begin() -> None:
        current_flow().add(tasks.report.signature("x" * 2**24))

    flow = chain(begin.signature()).send()
    with pytest.raises(InvalidValue, match="bytes of all bodies"):
        tasks.run_all()
    assert flow.status().total == 1


def test_what_is_refused(tasks, calls):
    kept, errors = [], []

    @tasks.task(queue="b", name="begin", track=True)
    def begin() -> None:
        flow = current_flow()
        kept.append((flow, flow.add(tasks.report.signature())))
        with Tasks.from_url("memory://other") as others:
            other = others.task(queue="q", name="o", track=True)(lambda: None)
            wrong = [
                lambda: flow.add(other.signature()),
                lambda: flow.add(tasks.report.signature(RESULT)),
                lambda: flow.add(tasks.report.signature(), after=kept[0][1]),
                lambda: flow.add(tasks.report.options(unique_key="k").signature()),
                lambda: flow.add(tasks.report),
            ]
            for call in wrong:
                try:
                    call()
                except InvalidFormat as error:
                    errors.append(str(error))

    for _ in range(2):
        chain(begin.signature()).send()
    tasks.run_all()
    assert [text for text in errors if "another Tasks object" in text]
    assert [text for text in errors if "no node before it" in text]
    assert [text for text in errors if "of another flow" in text]
    assert [text for text in errors if "option unique_key" in text]
    assert [text for text in errors if "Pass a call" in text]
    with pytest.raises(InvalidFormat, match="its node has returned"):
        kept[0][0].add(tasks.report.signature())
    with pytest.raises(NotPossible, match="There is no current flow"):
        current_flow()

    @tasks.task(queue="b", name="plain")
    def plain() -> None:
        current_flow()

    plain.send()
    with pytest.raises(NotPossible, match="in the function of a task that a flow has sent"):
        tasks.run_all()


def test_without_redis(tasks, calls):
    with tasks.immediate():
        flow = chain(tasks.split.signature([1, 2]), tasks.report.signature(RESULT)).send()
        nested = []

        @tasks.task(queue="b", name="outer", track=True)
        def outer() -> None:
            with pytest.raises(NotPossible):
                inner.send()
            nested.append(current_flow().id)

        @tasks.task(queue="b", name="inner")
        def inner() -> None:
            current_flow()

        other = chain(outer.signature()).send()
    assert nested == [other.id]
    assert calls == [
        ("split", [1, 2]), ("double", 1), ("double", 2), ("total", [2, 4]), ("report", 2)
    ]  # fmt: skip
    assert flow.result() == "report 2"
    assert (flow.status().state, flow.status().total) == ("succeeded", 5)
    assert [each.after for each in flow.nodes()] == [(), (0,), (0,), (0,), (2, 3)]
    assert [each.is_added for each in flow.nodes()] == [False, False, True, True, True]


def test_a_child_process_adds_nodes():
    flow = chain(process_app.add_to_flow.signature()).send()
    process_app.tasks.run_all()
    assert [each.task.rpartition(".")[2] for each in flow.nodes()] == [
        "add_to_flow", "find_process", "find_process", "name_processes"
    ]  # fmt: skip
    assert flow.nodes()[3].raw_result == b"true"
    assert flow.status().state == "succeeded"
