"""The scripts of flows against a model: all orders of small graphs, random ones of larger ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ
from rsmq.jobs.flows.operations import (
    FlowNode,
    FlowPlan,
    added_number,
    check_flow,
    pack_nodes,
    result_of,
    send_flow,
)
from rsmq.operations.plain import plain_command
from rsmq.wire.ids import make_flow_id
from rsmq.worker.operations import (
    FollowingMessage,
    Identity,
    Settlement,
    TrackedOutcome,
    finish_messages,
    settle_messages,
)
from tests.scale import scaled

OUTCOMES = {
    "succeed": "succeeded",
    "fail": "failed",
    "cancel": "cancelled",
    "delete": "expired",
    "move": "expired",
    "purge": "expired",
    "delete queue": "expired",
}
#: The ends that a check finds; the script that removes the message writes the others.
FOUND_BY_CHECK = {"purge", "delete queue"}


class Model:
    """What a flow should do: the nodes before each, the results it takes, and its state."""

    def __init__(self, after, policy, *, has_finally):
        self.after, self.policy = dict(enumerate(after)), policy
        self.uses = dict(self.after)
        self.last = len(after) if has_finally else None
        self.states = ["pending"] * (len(after) + has_finally)
        self.stopped = None
        self.send()

    @property
    def others(self):
        """The numbers of all nodes but finally."""
        return [number for number in range(len(self.states)) if number != self.last]

    def send(self):
        good = (
            {"succeeded"}
            if self.policy == "stop"
            else {"succeeded", "failed", "cancelled", "expired"}
        )
        for number in self.others:
            if self.states[number] == "pending":
                if self.stopped:
                    self.states[number] = "skipped"
                elif all(self.states[each] in good for each in self.after[number]):
                    self.states[number] = "sent"
        is_idle = not {"pending", "sent"}.intersection(self.states[each] for each in self.others)
        if is_idle and self.last is not None and self.states[self.last] == "pending":
            self.states[self.last] = "sent"

    def end(self, number, outcome):
        if self.states[number] == "sent":
            self.states[number] = OUTCOMES[outcome]
            if outcome != "succeed" and self.policy == "stop" and number != self.last:
                self.stopped = self.stopped or "failed"
            self.send()

    def add(self, number, added, awaited):
        """A node succeeds, and adds nodes, each after some of them; others wait for some."""
        if not self.stopped:
            first = len(self.states)
            for each, before in self.after.items():
                if number in before:
                    self.after[each] = (*before, *(first + other for other in sorted(awaited)))
            for each, before in enumerate(added, first):
                self.uses[each] = tuple(first + other for other in before)
                self.after[each] = self.uses[each] or (number,)
            self.states += ["pending"] * len(added)
        self.end(number, "succeed")

    def cancel(self):
        if self.state == "running":
            self.stopped = self.stopped or "cancelled"
            for number in self.others:
                if self.states[number] == "sent":
                    self.states[number] = "cancelled"
            self.send()

    @property
    def state(self):
        if {"pending", "sent"}.intersection(self.states):
            return "running"
        if self.stopped == "cancelled":
            return "cancelled"
        followed = {each for before in self.after.values() for each in before}
        ends = {*range(len(self.states))} - followed
        return "succeeded" if all(self.states[each] == "succeeded" for each in ends) else "failed"


class Flow:
    """The same flow in Redis, in a queue for each node."""

    def __init__(self, client, after, policy, *, has_finally):
        self.client = client
        self.queues = []
        self.add_queues(len(after) + has_finally)
        client.create_queue("other", exist_ok=True)
        nodes = []
        for number, before in enumerate([*after, *([()] if has_finally else [])]):
            body = b"%d" % number + b"".join(b" " + result_of(each) for each in before)
            nodes.append(FlowNode(f"q{number}", body, 9, before, before))
        plan = FlowPlan(make_flow_id(None), nodes, policy, has_finally=has_finally)
        self.id, self.key = plan.id, client.namespace.flow(plan.id)
        self.handle = client.flow(plan.id)
        assert client.run(send_flow(client.namespace, plan, realtime=False))
        self.worker = Identity(client.namespace, "w", "token")
        self.sent = {}
        self.created_again = set()

    def add_queues(self, number):
        for _ in range(number):
            name = f"q{len(self.queues)}"
            self.client.create_queue(name, exist_ok=True)
            self.queues.append(self.client.namespace.queue(name))

    def end(self, number, outcome, *, times=1):
        keys = self.queues[number]
        client, id = self.client, self.find(number)
        if outcome == "cancel":
            client.job(keys.name, id).cancel()
        elif outcome == "delete":
            client.delete_message(keys.name, id)
        elif outcome == "move":
            client.move_messages(keys.name, "other", [id])
        elif outcome == "purge":
            client.purge_queue(keys.name)
        elif outcome == "delete queue":
            client.delete_queue(keys.name)
            client.create_queue(keys.name)
            self.created_again.add(number)
        else:
            count, tracked = self.receive(number), _make_outcome(number, outcome)
            group = Settlement(keys, "delete", count, [id], tracked=tracked)
            for _ in range(times):
                client.run(settle_messages(self.worker, [group]))
        if outcome in FOUND_BY_CHECK:
            client.run(check_flow(client.namespace, self.id))

    def find(self, number):
        name = self.queues[number].name
        id = self.sent[number] = self.sent.get(number) or self.client.peek_messages(name)[0].id
        return id

    def receive(self, number):
        found = self.client.receive_messages(self.queues[number].name, 1, vt=60)
        return found[0].receive_count if found else 1

    def add(self, number, added, awaited, *, times=1):
        id, count = self.find(number), self.receive(number)
        self.add_queues(len(added))
        first = len(self.queues) - len(added)
        nodes = [
            FlowNode(
                f"q{first + each}",
                added_number(each) + b"".join(b" " + result_of(other) for other in before),
                9,
                before,
                before,
            )
            for each, before in enumerate(added)
        ]
        packed = pack_nodes(nodes, awaited)
        following = FollowingMessage(nodes[0].queue, packed, 0, number=str(number), flow_id=self.id)
        for _ in range(times):
            self.client.run(
                finish_messages(
                    self.worker,
                    self.queues[number],
                    count,
                    [(id, following)],
                    tracked=_make_outcome(number, "succeed"),
                )
            )

    def check_is_as(self, model):
        client = self.client
        for number, state in enumerate(model.states):
            stored = client.run(plain_command("HGET", self.key, f"{number}:s"))
            shown = (stored or b"pending").decode().partition(" ")[0]
            if shown == "pending" and model.stopped and number != model.last:
                shown = "skipped"
            assert shown == state, (number, model.states)
            messages = client.peek_messages(f"q{number}")
            assert len(messages) == (state == "sent")
            if state == "sent" and number != model.last:
                results = [
                    f'"{each}"' if model.states[each] == "succeeded" else "null"
                    for each in model.uses[number]
                ]
                assert messages[0].raw.decode().split(" ") == [str(number), *results]
            total = client.get_queue_attributes(f"q{number}").total_sent
            assert number in self.created_again or total == (state not in {"pending", "skipped"})
        status = self.handle.status()
        shown = {name: number for name, number in status.counts.items() if number}
        assert shown == {name: model.states.count(name) for name in model.states}
        assert status.state == model.state
        nodes = self.handle.nodes()
        assert [each.after for each in nodes if not each.is_finally] == [
            tuple(model.after[number]) for number in model.others
        ]
        is_due = client.run(plain_command("ZCARD", b"rsmq:x:due"))
        assert is_due == (model.state == "running")


def _make_outcome(number, outcome):
    event = "succeed" if outcome == "succeed" else "fail"
    return TrackedOutcome(event, 60, [b'"%d"' % number if event == "succeed" else b"E: no"])


_numbers = itertools.count()


def play(after, policy, has_finally, choose):
    """Play a flow to its end. ``choose`` returns the place of the next step among some."""
    with RSMQ.from_url(f"memory://flow-model-{next(_numbers)}") as client:
        model = Model(after, policy, has_finally=has_finally)
        flow = Flow(client, after, policy, has_finally=has_finally)
        flow.check_is_as(model)
        while model.state == "running":
            sent = [number for number, state in enumerate(model.states) if state == "sent"]
            number, outcome, *added = choose(sent)
            if outcome == "cancel flow":
                flow.handle.cancel()
                model.cancel()
            elif outcome == "add":
                flow.add(number, *added, times=2)
                model.add(number, *added)
            else:
                flow.end(number, outcome, times=2)
                model.end(number, outcome)
            flow.check_is_as(model)


def all_graphs(size):
    """Return the nodes before each, for all graphs of so many nodes."""
    before = [
        [
            each
            for count in range(number + 1)
            for each in itertools.combinations(range(number), count)
        ]
        for number in range(size)
    ]
    return list(itertools.product(*before))


@pytest.mark.parametrize(("policy", "has_finally"), [("stop", True), ("continue", False)])
@pytest.mark.parametrize("after", all_graphs(3))
def test_all_orders_of_small_graphs(after, policy, has_finally):
    """Each order of the ends of the nodes, with each outcome succeeded or failed."""
    steps = [[]]
    while steps:
        fixed, taken = steps.pop(), []

        def choose(sent, fixed=fixed, taken=taken):
            options = [(each, outcome) for each in sent for outcome in ("succeed", "fail")]
            at = len(taken)
            if at >= len(fixed):
                steps.extend([*taken, place] for place in range(1, len(options)))
            taken.append(fixed[at] if at < len(fixed) else 0)
            return options[taken[-1]]

        play(after, policy, has_finally, choose)


@pytest.mark.parametrize("awaited", [set(), {1}, {0, 1}])
@pytest.mark.parametrize("added", all_graphs(2))
@pytest.mark.parametrize("after", all_graphs(2))
def test_all_orders_with_added_nodes(after, added, awaited):
    """The first node adds two, which succeed or fail; each order of the ends."""
    steps = [[]]
    while steps:
        fixed, taken = steps.pop(), []

        def choose(sent, fixed=fixed, taken=taken):
            options = [
                (each, outcome) if each else (each, "add", added, awaited)
                for each in sent
                for outcome in (("succeed", "fail") if each > 1 else ("succeed",))
            ]
            at = len(taken)
            if at >= len(fixed):
                steps.extend([*taken, place] for place in range(1, len(options)))
            taken.append(fixed[at] if at < len(fixed) else 0)
            return options[taken[-1]]

        play(after, "stop", False, choose)


@st.composite
def graphs(draw, most=6):
    size = draw(st.integers(1, most))
    return [
        tuple(sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else ()))
        for number in range(size)
    ]


def _draw_outcome(data, sent):
    number = data.draw(st.sampled_from(sent))
    outcome = data.draw(st.sampled_from(["succeed", "add", *OUTCOMES, "cancel flow"]))
    if outcome != "add":
        return number, outcome
    added = data.draw(graphs(3))
    return number, outcome, added, data.draw(st.sets(st.integers(0, len(added) - 1)))


@settings(max_examples=scaled(80, 5000), deadline=None)
@given(graphs(), st.sampled_from(["stop", "continue"]), st.booleans(), st.data())
def test_random_orders_of_larger_graphs(after, policy, has_finally, data):
    play(after, policy, has_finally, lambda sent: _draw_outcome(data, sent))


def test_a_check_after_nodes_were_added_begins_with_the_first():
    """The place of the next check is below the number of nodes, which grows."""
    steps = iter([(3, "purge"), (1, "add", [()], set()), (0, "succeed"), (2, "purge")])
    ends = iter([(number, "succeed") for number in (4, 5, 6)])
    play(
        [(), (), (0, 1), (), (1,), (1,)],
        "continue",
        False,
        lambda _sent: next(steps, None) or next(ends),
    )
