"""Maps against a model: their messages return in random orders, twice, in copies, or too large."""

from __future__ import annotations

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT, Tasks
from rsmq.worker.operations import FollowingMessage, Identity, TrackedOutcome, finish_messages
from tests.scale import scaled

_numbers = itertools.count()


class Map:
    """A map of some items in Redis, and the results of those that have returned, by number."""

    def __init__(self, tasks, items):
        self.client, self.items = tasks.client, items

        @tasks.task(queue="items", name="item", track=True)
        def item(number: int) -> str: ...

        @tasks.task(queue="ends", name="end")
        def end(texts: list[str]) -> None: ...

        self.client.create_queue("ends", maxsize=1024)
        self.jobs = tasks.map(item, range(items), then=end.signature(RESULT))
        self.id = json.loads(self.client.peek_messages("items")[0].raw)["map"]["id"]
        self.worker = Identity(self.client.namespace, "w", "token")
        self.results, self.last = {}, None
        self.messages = [[job.id, number] for number, job in enumerate(self.jobs)]
        self.done = set()
        self.client.receive_messages("items", items, vt=600)

    def copy(self, number):
        """Send a message of an item again, as a redrive does, and receive it."""
        body = {"task": "item", "args": {}, "map": {"id": self.id, "number": number}}
        id = self.client.send_message("items", json.dumps(body), track=True)
        self.client.receive_messages("items", 1, vt=600)
        self.messages.append([id, number])

    def finish(self, place, result):
        """Let a message return, and compare the answer with the model."""
        id, number = self.messages[place]
        raw = json.dumps(result).encode()
        following = FollowingMessage("ends", raw, 0, map_id=self.id, number=str(number))
        outcome = TrackedOutcome("succeed", 60, [raw])
        queue = self.client.namespace.queue("items")
        step = finish_messages(self.worker, queue, 1, [(id, following)], tracked=outcome)
        [answer] = self.client.run(step)
        if id in self.done:
            assert answer == b"0"
        elif number not in self.results and len(result) > 1000:
            assert answer.startswith(b"MESSAGETOOLONG")
        else:
            assert answer == b"1"
            self.done.add(id)
            if number not in self.results:
                self.results[number] = result
                self.last = id if len(self.results) == self.items else None

    def check(self):
        """Compare the record of the map, its end and the records of its jobs with the model."""
        client = self.client
        key = client.namespace.task_map(self.id)
        names = {each.decode() for each in client.run(plain_command("HKEYS", key))}
        left = {str(number) for number in range(self.items)} - {str(each) for each in self.results}
        assert {each for each in names if each.isdigit()} == left
        ends = client.peek_messages("ends")
        assert len(ends) == (not left)
        if not left:
            assert not names
            texts = [self.results[number] for number in range(self.items)]
            assert json.loads(ends[0].raw)["args"] == {"texts": texts}
        for id, _ in self.messages:
            following = client.job("items", id).status().following
            place = None if following is None else (following.queue, following.id)
            assert place == (("ends", ends[0].id) if id == self.last else None)


_actions = st.lists(
    st.tuples(
        st.sampled_from(["finish", "finish", "copy", "large"]),
        st.integers(0, 9),
        st.text("ä𝄞\\%1", max_size=3),
    ),
    max_size=20,
)


@settings(max_examples=scaled(60, 1000), deadline=None)
@given(st.integers(1, 4), _actions)
def test_a_map_ends_once_after_all_items_in_random_orders(items, actions):
    with Tasks.from_url(f"memory://map-model-{next(_numbers)}") as tasks:
        played = Map(tasks, items)
        finishes = [("finish", number, str(number)) for number in range(items)]
        for action, number, text in [*actions, *finishes]:
            if action == "copy":
                played.copy(number % items)
            elif action == "large":
                played.finish(number % len(played.messages), "x" * 1100)
            else:
                played.finish(number % len(played.messages), text)
            played.check()
