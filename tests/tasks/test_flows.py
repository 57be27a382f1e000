"""Flows of tasks: each call is sent when those before it have ended."""

from __future__ import annotations

import asyncio

import pytest

from rsmq import InvalidFormat, InvalidValue, MessageTooLong
from rsmq.errors import FlowCancelled, FlowFailed, FlowNotEnded, FlowNotFound
from rsmq.jobs.flows import FlowState
from rsmq.jobs.flows.operations import check_flow
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT, Tasks, chain, chord, group
from rsmq.worker import Discard, Worker


@pytest.fixture
def calls(tasks):
    """Declare tasks; return what they have been called with."""
    calls = []

    @tasks.task(queue="a", name="add", track=True)
    def add(x: int, y: int) -> int:
        calls.append((x, y))
        return x + y

    @tasks.task(queue="b", name="total", track=True)
    def total(numbers: list[int | None], factor: int = 1) -> int:
        calls.append(numbers)
        return factor * sum(each or 0 for each in numbers)

    @tasks.task(queue="b", name="fail", track=True, max_retries=0)
    async def fail(number: int) -> int:
        calls.append(number)
        raise Discard("no")

    @tasks.task(queue="c", name="clean", track=True)
    def clean(text: str = "clean") -> None:
        calls.append(text)

    tasks.add, tasks.total, tasks.fail, tasks.clean = add, total, fail, clean
    return calls


def fields(tasks, flow):
    key = tasks.client.namespace.flow(flow.id)
    names = tasks.client.run(plain_command("HKEYS", key))
    return dict(zip(names, tasks.client.run(plain_command("HMGET", key, *names)), strict=True))


def due(tasks):
    return tasks.client.run(plain_command("ZRANGE", b"rsmq:x:due", "0", "-1"))


def states(flow):
    return [each.state.value for each in flow.nodes()]


def test_a_chain_passes_results(tasks, calls, raw):
    flow = chain(
        tasks.add.signature(1, 2), tasks.add.signature(RESULT, 10), tasks.add.signature(RESULT, y=0)
    ).send()

    assert raw("a") == [
        '{"task":"add","args":{"x":1,"y":2},"flow":{"id":"' + flow.id + '","node":0}}'
    ]
    assert due(tasks) == [b"flow:" + flow.id.encode()]
    assert flow.status().counts["pending"] == 2
    with pytest.raises(FlowNotEnded, match="0 of 3"):
        flow.result(0)
    tasks.run_all()
    assert calls == [(1, 2), (3, 10), (13, 0)]
    assert flow.result(0) == 13
    status = flow.status()
    assert (status.state, status.done, status.total) == ("succeeded", 3, 3)
    assert status.ended_at >= status.sent_at
    assert due(tasks) == []
    assert raw("a") == []


def test_the_stored_fields(tasks, calls):
    flow = tasks.flow(on_failure="continue", result_ttl=60)
    first = flow.add(tasks.add.options(delay=5).signature(1, 2))
    flow.add(tasks.add.signature(3, 4), after=first)
    sent = flow.send()
    found = fields(tasks, sent)
    [id] = tasks.client.run(plain_command("ZRANGE", b"rsmq:a", "0", "-1"))
    record = tasks.client.run(plain_command("HGET", b"rsmq:a:x:job:" + id, "flow"))

    assert record == tasks.client.namespace.flow(sent.id) + b" 0"
    assert found[b"0:s"] == b"sent " + id
    assert found[b"0:t"] == b"1"  # its result is not used
    assert found[b"1:t"] == b"+"
    assert found[b"1:n"] == b"1"
    assert b"1:s" not in found
    assert found[b"policy"] == b"continue"
    assert found[b"unsucceeded"] == b"1"
    assert [found[name] for name in (b"pending", b"sent", b"nodes")] == [b"1", b"1", b"2"]
    [message] = tasks.client.peek_messages("a")
    assert message.state == "delayed"
    lifetime = tasks.client.run(plain_command("PTTL", tasks.client.namespace.flow(sent.id)))
    assert 7 * 86_400_000 < lifetime <= 7 * 86_400_000 + 5000
    sent.cancel()
    lifetime = tasks.client.run(plain_command("PTTL", tasks.client.namespace.flow(sent.id)))
    assert 0 < lifetime <= 60_000


def test_results_arrive_in_the_order_of_their_declaration(tasks, calls):
    flow = tasks.flow()
    one, two, three = (flow.add(tasks.add.signature(number, 0)) for number in (1, 2, 3))
    other = flow.add(tasks.add.signature(RESULT(three), y=RESULT(one)))
    last = flow.add(tasks.total.signature(RESULT([three, one, two])), after=[other])
    assert last.after == (other, three, one, two)
    sent = flow.send()
    tasks.run_all()
    assert calls[-1] == [3, 1, 2]
    assert sent.result(0) == 6
    assert [each.after for each in sent.nodes()][-1] == (3, 2, 0, 1)


def test_a_chord_and_a_group(tasks, calls):
    header = [tasks.add.signature(number, number) for number in range(4)]
    both = chord(header, tasks.total.signature(RESULT, factor=2)), group(header)
    single, empty = group(header[:1]), chord([], tasks.total.signature(RESULT))
    sent = [each.send() for each in (*both, single, empty)]
    tasks.run_all()
    assert [each.result(0) for each in sent] == [24, [0, 2, 4, 6], [0], 0]


def test_an_empty_group_in_a_chain_passes_an_empty_list_and_keeps_the_order(tasks, calls):
    flow = chain(
        tasks.add.signature(1, 1), [], [], tasks.total.signature(RESULT), tasks.clean.signature()
    )
    assert [[each.number for each in node.after] for node in flow.nodes] == [[], [0], [1]]
    sent = flow.send()
    assert sent.status().counts["sent"] == 1
    tasks.run_all()
    assert calls == [(1, 1), [], "clean"]
    assert chord([], tasks.total.signature(RESULT)).nodes[0].after == ()


def test_the_result_of_a_group_is_a_list_also_of_one_call(tasks, calls):
    first, then = tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1)
    flows = [each.send() for each in (group(first), chain(first, [then]), chain(first, then))]
    tasks.run_all()
    assert [each.result(0) for each in flows] == [[2], [3], 3]


def test_a_flow_that_was_sent_takes_no_further_call(tasks, calls):
    flow = group(tasks.add.signature(1, 1))
    flow.send()
    for change in flow.add, flow.finally_:
        with pytest.raises(InvalidFormat, match="was sent"):
            change(tasks.clean.signature())
    assert len(flow.nodes) == 1
    with tasks.immediate():
        flow = group(tasks.add.signature(1, 1))
        flow.send()
    with pytest.raises(InvalidFormat, match="was sent"):
        flow.add(tasks.clean.signature())


def test_a_failure_stops_the_flow_and_finally_runs(tasks, calls):
    flow = chain(
        tasks.add.signature(1, 1),
        tasks.fail.signature(RESULT),
        tasks.add.signature(RESULT, 1),
        finally_=tasks.clean.signature("end"),
    ).send()
    tasks.run_all()
    assert calls == [(1, 1), 2, "end"]
    assert states(flow) == ["succeeded", "failed", "skipped", "succeeded"]
    assert flow.status().counts["skipped"] == 1
    with pytest.raises(FlowFailed, match=r"fail \(node 1\) has failed: Discard: no"):
        flow.result(0)


def test_a_failure_lets_the_flow_continue(tasks, calls):
    options = {"on_failure": "continue"}
    header = [tasks.add.signature(1, 1), tasks.fail.signature(5)]
    sent = chord(header, tasks.total.signature(RESULT), **options).send()
    only = group(header, **options).send()
    tasks.run_all()
    assert calls[-1] == [2, None]
    assert sent.result(0) == 2
    assert states(sent) == ["succeeded", "failed", "succeeded"]
    with pytest.raises(FlowFailed):
        only.result(0)


def test_finally_runs_last_and_its_failure_is_that_of_the_flow(tasks, calls):
    flow = group(tasks.add.signature(1, 1), finally_=tasks.fail.signature(0)).send()
    assert states(flow) == ["waiting", "pending"]
    tasks.run_all()
    assert calls == [(1, 1), 0]
    assert flow.status().state == "failed"
    assert [each.is_finally for each in flow.nodes()] == [False, True]


def test_finally_can_be_set_later(tasks, calls):
    flow = group(tasks.add.signature(1, 1))
    flow.finally_(tasks.clean.signature("replaced"))
    flow.finally_(tasks.clean.signature(flow.id))
    with pytest.raises(InvalidFormat, match="gets no RESULT"):
        flow.finally_(tasks.clean.signature(RESULT))
    sent = flow.send()
    tasks.run_all()
    assert calls == [(1, 1), sent.id]


def test_cancelling(tasks, calls):
    flow = chain(
        tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1), finally_=tasks.clean.signature()
    )
    sent = flow.send()
    assert sent.cancel() == "requested"  # finally runs
    assert states(sent) == ["cancelled", "skipped", "waiting"]
    tasks.run_all()
    assert calls == ["clean"]
    assert sent.status().state == "cancelled"
    assert sent.cancel() == "cancelled"
    with pytest.raises(FlowCancelled):
        sent.result(0)

    plain = group(tasks.add.signature(1, 1), tasks.add.signature(2, 2)).send()
    assert plain.cancel() == "cancelled"
    assert tasks.client.peek_messages("a") == []
    assert due(tasks) == []

    ended = group(tasks.add.signature(1, 1)).send()
    tasks.run_all()
    assert ended.cancel() == "ended"


def test_cancelling_a_job_of_a_flow_ends_its_node(tasks, calls):
    flow = chain(tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1)).send()
    [node, _] = flow.nodes()
    tasks.client.job(node.queue, node.id).cancel()
    assert states(flow) == ["cancelled", "skipped"]
    with pytest.raises(FlowFailed, match="was cancelled"):
        flow.result(0)


LEAVING = {
    "delete": lambda client, id: client.delete_message("a", id),
    "delete received": lambda client, _: client.delete_message(client.receive_message("a")),
    "delete many": lambda client, id: client.delete_messages("a", [id]),
    "pop": lambda client, _: client.pop_message("a"),
    "pop many": lambda client, _: client.pop_messages("a", 10),
    "move": lambda client, id: client.move_messages("a", "other", [id]),
    "receive of a dead letter": lambda client, _: [
        client.receive_messages("a", 1, vt=0) for _ in range(2)
    ],
    "recover of a dead letter": lambda client, _: (
        client.receive_message("a"),
        client.recover_messages("a", 1, idle=0),
    ),
    "sweep of dead letters": lambda client, _: (
        client.receive_message("a", vt=0),
        client.sweep_dead_letters("a"),
    ),
}


@pytest.mark.parametrize("way", LEAVING)
def test_a_message_that_leaves_its_queue_ends_its_node_at_once(tasks, calls, way, raw):
    flow = chain(
        tasks.add.signature(1, 1), tasks.total.signature([1]), on_failure="continue"
    ).send()
    client = tasks.client
    [id] = [each.id for each in client.peek_messages("a")]
    assert id.endswith("Fr")
    client.create_queue("other")
    if "dead" in way:
        client.set_dead_letter_policy("a", "other", 1)
    LEAVING[way](client, id)
    found = fields(tasks, flow)
    assert found[b"0:s"] == b"expired " + id.encode()
    assert found[b"1:s"].startswith(b"sent ")
    assert raw("b")
    assert client.job("a", id).status().state == "expired"
    tasks.run_all()
    assert flow.result(0) == 1


def test_a_worker_without_records_ends_a_node_too(tasks, calls):
    flow = chain(tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1)).send()
    worker = Worker(tasks.client)
    worker.listener("a", drop=True)(lambda _body: None)
    worker.run(until_empty=True)
    assert fields(tasks, flow)[b"0:s"].startswith(b"expired ")
    assert flow.status().state == "failed"


@pytest.mark.parametrize("way", ["purge", "delete_queue", "another client"])
@pytest.mark.parametrize("by", ["status", "check"])
def test_a_message_that_leaves_its_queue_ends_its_node(tasks, calls, way, by):
    flow = chain(
        tasks.add.signature(1, 1), tasks.total.signature([1]), on_failure="continue"
    ).send()
    client, [node, _] = tasks.client, flow.nodes()
    if way == "purge":
        client.purge_queue("a")
    elif way == "delete_queue":
        client.delete_queue("a")
    else:
        client.run(plain_command("ZREM", b"rsmq:a", node.id))
        client.run(plain_command("HDEL", b"rsmq:a:Q", node.id))
    if by == "status":
        assert flow.status().counts["expired"] == 1
    else:
        assert client.run(check_flow(client.namespace, flow.id))
        assert fields(tasks, flow)[b"0:s"] == b"expired " + node.id.encode()
    tasks.run_all()
    assert calls == [[1]]
    assert flow.result(0) == 1


def test_a_read_checks_some_nodes_of_a_large_flow(tasks, calls):
    flow = group([tasks.add.signature(number, 0) for number in range(250)]).send()
    ids = [each.id for each in flow.nodes()]
    tasks.client.run(plain_command("ZREM", b"rsmq:a", *ids))
    tasks.client.run(plain_command("HDEL", b"rsmq:a:Q", *ids))
    status = flow.status()
    assert status.counts["expired"] in {50, 100}
    assert status.counts["skipped"] == 0
    tasks.client.run(check_flow(tasks.client.namespace, flow.id))
    assert flow.status().counts["expired"] == 250


def test_a_missing_or_full_queue_fails_the_node_that_needs_it(tasks, calls):
    flow = chain(
        tasks.add.signature(1, 1), tasks.total.signature([1]), finally_=tasks.clean.signature()
    )
    sent = flow.send()
    tasks.client.delete_queue("b")
    tasks.worker().run(until_empty=True)  # it creates the queue again before the node is sent
    assert sent.result(0) == 1

    sent = chain(tasks.add.signature(1, 1), tasks.total.signature([1])).send()
    tasks.client.set_queue_attributes("b", maxsize=1024)
    long = [*range(500)]
    with pytest.raises(MessageTooLong):
        group(tasks.total.signature(long)).send()
    tasks.run_all()
    assert sent.result(0) == 1


def test_a_result_that_is_too_large_names_both_tasks(tasks, calls):
    @tasks.task(queue="a", name="long", track=True)
    def long() -> str:
        return "ä𝄞" * 500

    tasks.client.create_queue("c", maxsize=1600)
    fits = chain(long.signature(), tasks.clean.signature(RESULT)).send()
    tasks.run_all()
    assert fits.status().state == "succeeded"  # 1,500 UTF-16 code units and the rest
    tasks.client.set_queue_attributes("c", maxsize=1500)
    flow = chain(long.signature(), tasks.clean.signature(RESULT)).send()
    tasks.run_all()
    assert states(flow) == ["succeeded", "failed"]
    with pytest.raises(FlowFailed, match=r"task clean with the results of long has 1.*1500"):
        flow.result(0)


def test_a_flow_is_sent_once(tasks, calls):
    def make():
        return chain(tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1), dedup_id="17")

    flows = [make().send() for _ in range(3)]
    assert len({each.id for each in flows}) == 1
    tasks.run_all()
    assert make().send().result(0) == 3
    assert calls == [(1, 1), (2, 1)]
    once = group(tasks.add.signature(5, 5))
    assert once.send().id == once.send().id
    tasks.run_all()
    assert calls[2:] == [(5, 5)]


def test_the_handle_of_a_client_and_asyncio(tasks, calls):
    flow = chain(tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1))

    async def send():
        async with asyncio.timeout(30):
            handle = await flow.asend()
            await tasks.arun_all()
            with pytest.raises(FlowNotFound):
                await tasks.aio.flow("0" * 22).status()
            result = await handle, (await handle.status()).state, len(await handle.nodes())
            await tasks.close_asyncio()
            return result

    assert asyncio.run(send()) == (3, "succeeded", 2)
    assert tasks.client.flow(flow.id).result(0) == 3
    with pytest.raises(FlowNotFound, match="one day"):
        tasks.client.flow("0" * 22).cancel()
    with pytest.raises(InvalidFormat, match="22 letters"):
        tasks.client.flow("short")


def test_flows_are_listed(tasks, calls):
    assert tasks.client.flows() == []
    first = chain(tasks.add.signature(1, 1), tasks.total.signature([1])).send()
    second = group(tasks.clean.signature()).send()
    tasks.run_all()
    third = chain(tasks.fail.signature(1), tasks.add.signature(1, 1)).send()

    ids = [third.id, second.id, first.id]
    found = tasks.client.flows()
    assert [each.id for each in found] == ids
    assert [each.state.value for each in found] == ["running", "succeeded", "succeeded"]
    assert [each.task for each in found] == ["fail", "clean", "add"]
    assert [each.queues for each in found] == [("b", "a"), ("c",), ("a", "b")]
    assert [(each.done, each.total, each.nodes) for each in found] == [
        (0, 2, ()), (1, 1, ()), (2, 2, ())
    ]  # fmt: skip
    assert [each.id for each in tasks.client.flows(state="succeeded", max_flows=1)] == [second.id]
    assert [each.id for each in tasks.client.flows(state=FlowState.RUNNING)] == [third.id]
    with pytest.raises(InvalidFormat, match="running, succeeded, failed, cancelled"):
        tasks.client.flows(state="waiting")
    for wrong in 0, 1001, "1":
        with pytest.raises(InvalidValue):
            tasks.client.flows(max_flows=wrong)

    async def list_them():
        found = await tasks.aio.flows(max_flows=2)
        await tasks.close_asyncio()
        return [each.id for each in found]

    assert asyncio.run(list_them()) == ids[:2]
    tasks.client.run(plain_command("DEL", tasks.client.namespace.flow(second.id)))
    assert [each.id for each in tasks.client.flows(max_flows=1)] == ids[:1]
    assert tasks.client.run(plain_command("ZCARD", b"rsmq:x:flow:all")) == 3
    assert [each.id for each in tasks.client.flows()] == [third.id, first.id]
    assert tasks.client.run(plain_command("ZCARD", b"rsmq:x:flow:all")) == 2


def test_the_ids_of_the_last_flows_are_stored(tasks, calls):
    old = [part for number in range(10_010) for part in (str(number), f"{number:022}")]
    tasks.client.run(plain_command("ZADD", b"rsmq:x:flow:all", *old))
    flow = group(tasks.clean.signature()).send()
    assert tasks.client.run(plain_command("ZCARD", b"rsmq:x:flow:all")) == 10_000
    assert [each.id for each in tasks.client.flows(state="running")] == [flow.id]
    assert tasks.client.run(plain_command("ZCARD", b"rsmq:x:flow:all")) == 1


def test_a_result_is_awaited_while_the_flow_runs(tasks, calls):
    flow = chain(tasks.add.signature(1, 1), tasks.add.signature(RESULT, 1)).send()

    async def wait():
        async with asyncio.timeout(30):
            waiting = asyncio.create_task(tasks.aio.flow(flow.id).result())
            await asyncio.sleep(0)
            await tasks.arun_all()
            result = await waiting
            await tasks.close_asyncio()
            return result

    assert asyncio.run(wait()) == 3


def test_immediate_runs_flows_here(tasks, calls):
    with tasks.immediate():
        flow = chord(
            [tasks.add.signature(1, 1), tasks.fail.signature(3)],
            tasks.total.signature(RESULT),
            on_failure="continue",
            finally_=tasks.clean.signature(),
        ).send()
        stopped = chain(tasks.fail.signature(3), tasks.add.signature(1, RESULT)).send()
        later = asyncio.run(chain(tasks.add.signature(1, 1)).asend())
    assert calls == [(1, 1), 3, [2, None], "clean", 3, (1, 1)]
    assert flow.result() == 2
    assert flow.status().counts["succeeded"] == 3
    assert states(stopped) == ["failed", "skipped"]
    assert asyncio.run(later.result()) == 2
    assert tasks.client.list_queues() == []


def test_what_is_refused(tasks, calls):
    other = Tasks(tasks.client)

    @other.task(queue="o", name="other", track=True)
    def foreign() -> None: ...

    @tasks.task(queue="d", name="untracked")
    def untracked() -> None: ...

    add, flow = tasks.add, tasks.flow()
    node = flow.add(add.signature(1, 1))
    wrong = tasks.flow().add(add.signature(1, 1))
    for call, text in (
        (foreign.signature(), "another Tasks object"),
        (untracked.signature(), "track=True"),
        (add.options(then=add.signature(1, 1)).signature(1, 1), "option then.*level and delay"),
        (add.options(unique_key="x").signature(1, 1), "option unique_key.*level and delay"),
        (add.signature(RESULT, 1), "no node before it"),
        (add.signature(RESULT(wrong), 1), "of another flow"),
        (add.signature(RESULT(17), 1), "add\\(\\) has returned"),
        ("add", "Pass a call"),
    ):
        with pytest.raises(InvalidFormat, match=text):
            flow.add(call)
    with pytest.raises(InvalidFormat, match="of another flow"):
        flow.add(add.signature(1, 1), after=wrong)
    for after in 0, False, 17, "", "node", b"":
        with pytest.raises(InvalidFormat, match="add\\(\\) has returned"):
            flow.add(add.signature(1, 1), after=after)
    assert flow.nodes == [node]
    for numbers in [RESULT(node), 1], (RESULT,):
        with pytest.raises(InvalidFormat, match=r"numbers is a list .* RESULT\(\[node, node\]\)"):
            tasks.total.signature(numbers)
    with pytest.raises(InvalidFormat, match="or add it to a flow"):
        add.signature(RESULT(node), 1).send()
    with pytest.raises(InvalidFormat, match="Only a flow has nodes"):
        add.options(then=add.signature(RESULT(node), 1))
    with pytest.raises(InvalidFormat, match="gets no RESULT"):
        tasks.flow(finally_=add.signature(RESULT, 1))
    with pytest.raises(InvalidFormat, match="'stop' or 'continue'"):
        tasks.flow(on_failure="skip")
    with pytest.raises(TypeError, match="'finally'"):
        tasks.flow(**{"finally": None})
    with pytest.raises(InvalidValue):
        tasks.flow(result_ttl=0)
    with pytest.raises(InvalidFormat):
        tasks.flow(dedup_id="")
    with pytest.raises(InvalidFormat, match="without nodes"):
        tasks.flow().send()
    for make in chain, group, lambda: chord([], flow):
        with pytest.raises(InvalidFormat, match="Pass calls"):
            make()
    for parts in (flow, add.signature(1, 1)), (add.signature(1, 1), flow):
        with pytest.raises(InvalidFormat, match="a group in a chain is a list"):
            chain(*parts)
    with pytest.raises(InvalidFormat, match="a group in a chain is a list"):
        group(add.signature(1, 1), flow)
    for _ in range(999):
        flow.add(add.signature(1, 1))
    with pytest.raises(InvalidValue, match=r"1000|1,000"):
        flow.add(add.signature(1, 1))


def test_a_thousand_nodes(tasks, calls):
    header = [tasks.add.signature(number, 0) for number in range(999)]
    flow = chord(header, tasks.total.signature(RESULT)).send()
    tasks.run_all(timeout=120)
    assert flow.result(0) == sum(range(999))
    assert calls[-1] == [*range(999)]


def test_texts_that_look_like_results_are_passed_unchanged(tasks, calls):
    text = '\x010\x01 "\\u00010\\u0001" %1'
    flow = tasks.flow()
    first = flow.add(tasks.clean.signature(text))
    flow.add(tasks.clean.signature(text), after=first)
    flow.send()
    tasks.run_all()
    assert calls == [text, text]
