"""Workers and Redis are killed while flows run: each node ends once, and each flow ends."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from rsmq.tasks import RESULT, Tasks, chain
from tests.scale import WAIT_SECONDS, scaled
from tests.schedules.conftest import wait_until
from tests.servers import Server, redis_7
from tests.tasks.flow_kills_app import QUEUES, declare
from tests.tasks.test_flow_model import Model
from tests.workers.processes.forks import start_command

pytestmark = pytest.mark.slow

FLOWS = scaled(60, 2000)
KILLS = scaled(4, 100)
REDIS_KILLS = scaled(1, 10)
NS = "flows"


@pytest.fixture
def server():
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


def make_flow(tasks, calls, chance, number):
    """Return a random flow, its model after all of its nodes, and the results of its nodes."""
    policy, has_finally = chance.choice(["stop", "continue"]), chance.random() < 0.3
    flow = tasks.flow(
        on_failure=policy,
        dedup_id=str(number),
        finally_=calls[0].signature(0, []) if has_finally else None,
    )
    after, fails, results = [], [], []
    for at in range(chance.randrange(1, 9)):
        before = sorted(chance.sample(range(at), min(at, chance.randrange(4))))
        fails.append(chance.random() < 0.1)
        call = calls[chance.randrange(2)]
        nodes = [flow.nodes[each] for each in before]
        flow.add(call.signature(at, RESULT(nodes), fails[-1]))
        after.append(tuple(before))
        results.append(None if fails[-1] else at + sum(results[each] or 0 for each in before))
    return flow, Model(after, policy, has_finally=has_finally), fails, results


@pytest.fixture
def start(server):
    """A function that starts a worker."""
    environment = {"TASKS_URL": server.url, "TASKS_NS": NS}
    return partial(
        start_command, "worker", "tests.tasks.flow_kills_app:tasks", environment=environment
    )


def run_with_kills(server, start, chance, flows, kills, redis_kills):
    """
    Send flows in parts, and kill the workers while each part runs.

    Returns:
        The handles of the flows, and how often each node was called.
    """
    sent, in_work = [], 0

    def unfinished():
        with server.raw() as raw:
            return raw.zcard(f"{NS}:x:due")

    for kill in range(kills):
        part = flows[len(flows) * kill // kills : len(flows) * (kill + 1) // kills]
        sent += [flow.send() for flow in part]
        workers, begun = [start(), start()], unfinished()
        with server.raw() as raw:
            enough = raw.hlen(f"{NS}:calls") + chance.randrange(2 * len(part))
            wait_until(
                lambda raw=raw, enough=enough: not unfinished() or raw.hlen(f"{NS}:calls") > enough
            )
        if kill * redis_kills // kills != (kill + 1) * redis_kills // kills:
            server.kill()
            server.start()
        left = unfinished()
        for worker in workers:
            worker.kill()
            worker.wait()
        in_work += left > 0
        assert unfinished() <= begun
    # Messages that a killed worker had in flight become visible after their timeouts.
    while unfinished():
        assert start("--burst").wait(WAIT_SECONDS) == 0
        time.sleep(0.2)
    print(f"{in_work} of {kills} kills while flows ran, {redis_kills} of Redis")
    with server.raw() as raw:
        found = raw.hgetall(f"{NS}:calls")
    return sent, {key.decode(): int(count) for key, count in found.items()}


def test_each_node_ends_once_through_kills(server, start):
    chance = random.Random(58)
    with Tasks.from_url(server.url, ns=NS, retry_deadline=60) as tasks:
        calls = declare(tasks)
        made = [make_flow(tasks, calls, chance, number) for number in range(FLOWS)]
        flows, sent_nodes = [flow for flow, *_ in made], 0
        sent, noted = run_with_kills(server, start, chance, flows, KILLS, REDIS_KILLS)
        for handle, (flow, model, fails, results) in zip(sent, made, strict=True):
            nodes = handle.nodes()
            check_is_possible(model, fails, [each.state.value for each in nodes])
            assert handle.status().state == model.state
            for node in nodes:
                count = noted.get(f"{flow.id}:{node.number}", 0)
                is_sent = node.state not in {"pending", "skipped"}
                assert (count > 0) == is_sent, node
                sent_nodes += is_sent
                if node.state == "succeeded" and node.raw_result and not node.is_finally:
                    assert int(node.raw_result) == results[node.number]
        totals = [tasks.client.get_queue_attributes(queue).total_sent for queue in QUEUES]
        assert sum(totals) == sent_nodes  # each edge exactly once
        assert all(not tasks.client.get_queue_attributes(queue).messages for queue in QUEUES)
        print(f"{FLOWS} flows, {sent_nodes} nodes, {sum(noted.values())} calls")


def test_added_nodes_are_stored_once_through_kills(server, start):
    flows, added, chance = scaled(30, 2000), 3, random.Random(59)
    with Tasks.from_url(server.url, ns=NS, retry_deadline=60) as tasks:
        even, _, split = declare(tasks)
        made = [chain(split.signature(added), even.signature(7, [])) for _ in range(flows)]
        sent, noted = run_with_kills(server, start, chance, made, scaled(3, 100), REDIS_KILLS)
        for flow in sent:
            nodes = flow.nodes()
            assert [each.state.value for each in nodes] == ["succeeded"] * (added + 3)
            assert [each.after for each in nodes[1:]] == [
                (0, added + 2), *[(0,)] * added, tuple(range(2, added + 2))
            ]  # fmt: skip
            assert nodes[-1].raw_result == b"3"
            assert all(noted[f"{flow.id}:{node.number}"] >= 1 for node in nodes)
        totals = [tasks.client.get_queue_attributes(queue).total_sent for queue in QUEUES]
        assert sum(totals) == flows * (added + 3)  # each edge exactly once
        print(f"{flows} flows, {sum(totals)} nodes, {sum(noted.values())} calls")


def check_is_possible(model, fails, states):
    """
    Check that some order of the ends of the nodes leads to these states, and bring the model there.

    With the policy stop, exactly those nodes are sent whose nodes before them have ended before the
    first failure: these are at least all nodes before one that was sent, and no others need be.
    """
    number = len(fails)
    sent = {each for each in range(number) if states[each] != "skipped"}
    ended = {each for other in sent for each in model.after[other]}
    if model.policy == "continue" or not any(fails[each] for each in sent):
        assert sent == set(range(number))
    else:
        assert not any(fails[each] for each in ended)
        assert sent == {each for each in range(number) if ended.issuperset(model.after[each])}
    outcomes = ["failed" if each else "succeeded" for each in fails]
    shown = [outcomes[each] if each in sent else "skipped" for each in range(number)]
    model.states[:number] = shown
    model.states[number:] = ["succeeded"] * (len(model.states) - number)
    assert states == model.states
