"""The scripts of flows against a model: all orders of small graphs, random ones of larger ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq import RSMQ
from rsmq.flows.operations import FlowNode, FlowPlan, check_flow, result_of, send_flow
from rsmq.operations.plain import plain_command
from rsmq.wire.ids import make_flow_id
from rsmq.worker.operations import Identity, Settlement, TrackedOutcome, settle_messages

OUTCOMES = {
    "succeed": "succeeded",
    "fail": "failed",
    "cancel": "cancelled",
    "lose": "expired",
}


class Model:
    """What a flow should do: the graph, and the states of its nodes."""

    def __init__(self, after, policy, *, has_finally):
        self.after, self.policy = after, policy
        self.last = len(after) if has_finally else None
        self.states = ["pending"] * (len(after) + has_finally)
        self.stopped = None
        self.send()

    def send(self):
        good = (
            {"succeeded"}
            if self.policy == "stop"
            else {"succeeded", "failed", "cancelled", "expired"}
        )
        for number, before in enumerate(self.after):
            if (
                self.states[number] == "pending"
                and not self.stopped
                and all(self.states[each] in good for each in before)
            ):
                self.states[number] = "sent"
        others = self.states[: len(self.after)]
        if self.stopped:
            others = ["skipped" if each == "pending" else each for each in others]
            self.states[: len(self.after)] = others
        is_idle = not {"pending", "sent"}.intersection(others)
        if is_idle and self.last is not None and self.states[self.last] == "pending":
            self.states[self.last] = "sent"

    def end(self, number, outcome):
        if self.states[number] == "sent":
            self.states[number] = OUTCOMES[outcome]
            if outcome != "succeed" and self.policy == "stop" and number != self.last:
                self.stopped = self.stopped or "failed"
            self.send()

    def cancel(self):
        if self.state == "running":
            self.stopped = self.stopped or "cancelled"
            for number in range(len(self.after)):
                if self.states[number] == "sent":
                    self.states[number] = "cancelled"
            self.send()

    @property
    def state(self):
        if {"pending", "sent"}.intersection(self.states):
            return "running"
        if self.stopped == "cancelled":
            return "cancelled"
        followed = {each for before in self.after for each in before}
        ends = {*range(len(self.states))} - followed
        return "succeeded" if all(self.states[each] == "succeeded" for each in ends) else "failed"


class Flow:
    """The same flow in Redis, in a queue for each node."""

    def __init__(self, client, after, policy, *, has_finally):
        self.client = client
        names = [f"q{number}" for number in range(len(after) + has_finally)]
        for name in names:
            client.create_queue(name, exist_ok=True)
        self.queues = [client.namespace.queue(name) for name in names]
        nodes = []
        for number, before in enumerate([*after, *([()] if has_finally else [])]):
            body = b"%d" % number + b"".join(b" " + result_of(each) for each in before)
            nodes.append(FlowNode(names[number], body, 9, before, before))
        plan = FlowPlan(make_flow_id(None), nodes, policy, has_finally=has_finally)
        self.key = client.namespace.flow(plan.id)
        self.handle = client.flow(plan.id)
        assert client.run(send_flow(client.namespace, plan, realtime=False))
        self.worker = Identity(client.namespace, "w", "token")
        self.sent = {}

    def end(self, number, outcome, *, times=1):
        keys = self.queues[number]
        id = self.sent.get(number) or self.client.peek_messages(keys.name)[0].id
        self.sent[number] = id
        if outcome == "cancel":
            self.client.job(keys.name, id).cancel()
        elif outcome == "lose":
            self.client.delete_message(keys.name, id)
            self.client.run(check_flow(self.client.namespace, self.handle.id))
        else:
            found = self.client.receive_messages(keys.name, 1, vt=60)
            count = found[0].receive_count if found else 1
            event = "succeed" if outcome == "succeed" else "fail"
            tracked = TrackedOutcome(
                event, 60, [b'"%d"' % number if event == "succeed" else b"E: no"]
            )
            group = Settlement(keys, "delete", count, [id], tracked=tracked)
            for _ in range(times):
                self.client.run(settle_messages(self.worker, [group]))

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
                    for each in model.after[number]
                ]
                assert messages[0].raw.decode().split(" ") == [str(number), *results]
            total = client.get_queue_attributes(f"q{number}").total_sent
            assert total == (state not in {"pending", "skipped"})
        status = self.handle.status()
        shown = {name: number for name, number in status.counts.items() if number}
        assert shown == {name: model.states.count(name) for name in model.states}
        assert status.state == model.state
        is_due = client.run(plain_command("ZCARD", b"rsmq:x:due"))
        assert is_due == (model.state == "running")


_numbers = itertools.count()


def play(after, policy, has_finally, choose):
    """Play a flow to its end. ``choose`` returns the place of the next step among some."""
    with RSMQ.from_url(f"memory://flow-model-{next(_numbers)}") as client:
        model = Model(after, policy, has_finally=has_finally)
        flow = Flow(client, after, policy, has_finally=has_finally)
        flow.check_is_as(model)
        while model.state == "running":
            sent = [number for number, state in enumerate(model.states) if state == "sent"]
            number, outcome = choose(sent)
            if outcome == "cancel flow":
                flow.handle.cancel()
                model.cancel()
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


@st.composite
def graphs(draw):
    size = draw(st.integers(1, 6))
    return [
        tuple(sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else ()))
        for number in range(size)
    ]


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from(["stop", "continue"]), st.booleans(), st.data())
def test_random_orders_of_larger_graphs(after, policy, has_finally, data):
    def choose(sent):
        outcome = data.draw(st.sampled_from(["succeed", *OUTCOMES, "cancel flow"]))
        return data.draw(st.sampled_from(sent)), outcome

    play(after, policy, has_finally, choose)
