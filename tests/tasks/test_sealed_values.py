"""Arguments and results of tasks of a client whose codec compresses or encrypts."""

from __future__ import annotations

import itertools
import json
import random

import pydantic
import pytest
from obstore.store import MemoryStore

from rsmq import JSON, TEXT, BodyNotDecodable, InvalidFormat
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Compressed, Encrypted, Stored
from rsmq.tasks import RESULT, Tasks, chord
from rsmq.tasks.sealed_values import SealedValues
from tests.scale import WAIT_SECONDS

KEYS = {"k1": bytes(range(32))}
CODEC = Encrypted(Compressed(JSON), keys=KEYS)
_numbers = itertools.count()


class Card(pydantic.BaseModel):
    number: int
    texts: list[str] = []


@pytest.fixture
def url():
    return f"memory://sealed-{next(_numbers)}"


@pytest.fixture
def tasks(url):
    with Tasks.from_url(url, codec=CODEC) as tasks:
        yield tasks


def declare(tasks):
    """Return two tasks, and what they have been called with."""
    calls = []

    @tasks.task(queue="a", name="charge", track=True)
    def charge(card: Card, amount: int = 5) -> Card:
        calls.append((card, amount))
        return Card(number=card.number + amount)

    @tasks.task(queue="b", name="total", track=True)
    async def total(cards: list[Card], factor: int = 1) -> int:
        calls.append(cards)
        return factor * sum(each.number for each in cards)

    return charge, total, calls


def test_arguments_and_results_are_encrypted_one_by_one(tasks):
    charge, _, calls = declare(tasks)
    handle = charge.send(Card(number=4111, texts=["a small thing"] * 500), amount=2)
    (message,) = tasks.client.peek_messages("a", codec=JSON)

    assert message.body["task"] == "charge"
    assert message.body["args"]["card"].startswith("rsmq-body/1:zstd=")
    assert message.body["args"]["amount"].startswith("rsmq-body/1:aes256gcm=k1::")
    tasks.run_all()
    assert calls == [(Card(number=4111, texts=["a small thing"] * 500), 2)]
    assert handle.result() == Card(number=4113)
    stored = json.loads(tasks.client.job("a", handle.id).status().raw_result)
    assert stored.startswith("rsmq-body/1:aes256gcm=k1::")


def test_small_values_are_not_compressed(url):
    with Tasks.from_url(url, codec=Compressed(JSON)) as tasks:
        charge, *_ = declare(tasks)
        handle = charge.send(Card(number=1))
        (message,) = tasks.client.peek_messages("a", codec=JSON)
        assert message.body["args"] == {"card": {"number": 1, "texts": []}}
        tasks.run_all()
        assert handle.result() == Card(number=6)


@pytest.mark.parametrize(
    "value", ["rsmq-body/1:x", ["rsmq-body/", 1], {"a": "rsmq-body/1"}, None, "", [], "x" * 5000]
)
@pytest.mark.parametrize("codec", [CODEC, Compressed(JSON)])
def test_each_value_arrives(value, codec):
    values = SealedValues(codec)
    assert values.open(json.loads(json.dumps(values.seal(value)))) == value
    assert values.open([values.seal(value), values.seal(5)]) == [value, 5]


def test_a_task_that_follows_gets_the_result(tasks):
    charge, _, calls = declare(tasks)
    charge.options(then=charge.signature(RESULT, amount=7)).send(Card(number=1))
    tasks.run_all()
    assert calls == [(Card(number=1), 5), (Card(number=6), 7)]


def test_flows_pass_results(tasks):
    charge, total, calls = declare(tasks)
    header = [charge.signature(Card(number=number)) for number in (1, 2)]
    sent = chord(header, total.signature(RESULT, factor=2)).send()
    tasks.run_all()
    assert calls[-1] == [Card(number=6), Card(number=7)]
    assert sent.result(timeout=0) == 26


def test_dead_letters_keep_their_arguments_readable(tasks):
    ran = []

    @tasks.task(queue="a", name="fail", max_retries=0, dead_letter_queue="dead")
    def fail(text: str) -> None:
        ran.append(text)
        if len(ran) == 1:
            raise ValueError

    fail.send("secret")
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
    assert b"secret" not in tasks.client.peek_messages("dead")[0].raw
    tasks.client.redrive_messages("dead", "a")
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
    assert ran == ["secret", "secret"]


def test_a_schedule_has_encrypted_arguments(tasks):
    charge, _, calls = declare(tasks)
    tasks.client.create_queue("a")
    body = charge.signature(Card(number=3)).body
    tasks.client.schedules.add("daily", queue="a", body=body, every=86_400, codec=JSON)
    tasks.client.schedules.run_now("daily")
    stored = tasks.client.schedules.get("daily").definition.body
    assert b"aes256gcm=k1" in stored
    tasks.run_all()
    assert calls == [(Card(number=3), 5)]


def test_a_missing_key_makes_a_dead_letter_that_names_it(tasks, url):
    charge, *_ = declare(tasks)
    charge.send(Card(number=1))
    other = Encrypted(JSON, keys={"k9": bytes(32)})
    with Tasks.from_url(url, codec=other) as others:
        _, _, calls = declare(others)
        others.worker().run(until_empty=True, timeout=WAIT_SECONDS)
        assert calls == []
        (dead,) = others.client.peek_messages("a-dead")
    assert "The body is encrypted with the key 'k1'" in dead.reason.text


def test_a_value_is_no_body_of_a_message(tasks):
    tasks.client.create_queue("q")
    tasks.client.send_message("q", SealedValues(CODEC).seal("secret"), codec=TEXT)
    with pytest.raises(BodyNotDecodable):
        _ = tasks.client.peek_messages("q")[0].body


def test_immediate_calls(tasks):
    charge, *_ = declare(tasks)
    with tasks.immediate():
        assert charge.send(Card(number=1)).result() == Card(number=6)


@pytest.mark.parametrize("inner", [JSON, Compressed(JSON)])
def test_an_argument_that_would_be_stored_elsewhere_is_refused_by_name(url, inner):
    store = ObjectStore(MemoryStore())
    with Tasks.from_url(url, codec=Stored(inner, store=store, above=400)) as tasks:
        sent = []

        @tasks.task(queue="a", track=True)
        def repeat(text: str, times: int = 1) -> str:
            sent.append(len(text))
            return text * times

        text = random.Random(1).randbytes(500).hex()
        with pytest.raises(InvalidFormat, match=r"text has .* bytes.*no arguments of tasks.*name"):
            repeat.send(text=text)
        assert tasks.client.list_queues() == []
        handle = repeat.send("abc", times=500)  # a result is not refused after the work
        tasks.run_all()
        assert handle.result(timeout=WAIT_SECONDS) == "abc" * 500
        assert sent == [3]
    assert list(store.list(b"rsmq")) == []
