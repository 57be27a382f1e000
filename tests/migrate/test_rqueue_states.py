"""The states of Rqueue that are written here are as its sources have them."""

from __future__ import annotations

import json

import pytest

from tests.migrate.rqueue_states import converted, whole


def test_a_message_begins_with_its_class_and_its_failures(rqueue):
    # Rqueue's own script rewrites the count by its place in the text.
    for release in (3, 4):
        raw = rqueue(release=release).message("q", "m").raw.decode()
        assert raw.startswith('{"@class":"com.github.sonus21.rqueue.core.RqueueMessage",')
        assert raw[58:73] == 'failureCount":0'


def test_the_releases_order_the_other_fields_differently(rqueue):
    fields = {
        release: list(json.loads(rqueue(release=release).message("q", "m").raw))[3:]
        for release in (3, 4)
    }

    assert fields[4] == sorted(fields[4])
    assert fields[3][:2] == ["queueName", "message"]
    assert fields[3] != fields[4]
    assert set(fields[3]) == set(fields[4])


def test_the_default_converter_wraps_texts_too():
    assert converted("a") == r'{"msg":"\"a\"","name":"java.lang.String"}'


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, ("__rq::queue::{q}", "__rq::d-queue::{q}", "__rq::p-queue::{q}")),
        ({"tagged": False}, ("__rq::queue::q", "__rq::d-queue::q", "__rq::p-queue::q")),
        ({"version": 1}, ("q", "rqueue-delay::q", "rqueue-processing::q")),
    ],
)
def test_keys_are_named_by_layout(rqueue, raw, options, keys):
    made = rqueue(**options)

    assert (made.ready("q"), made.scheduled("q"), made.processing("q")) == keys
    assert int(raw.get("__rq::version")) == made.version


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("listener", [False, True])
def test_the_whole_state_has_one_of_everything(rqueue, raw, ns, version, listener):
    made = rqueue(version=version, release=3)
    state = whole(made, ns, listener=listener)
    now = made.now_ms()

    assert raw.lrange(made.ready(ns), 0, -1) == [
        state.ready[0].raw, state.deleted.raw, state.superseded.raw, state.ready[1].raw
    ]  # fmt: skip
    assert raw.lrange(made.ready(state.priorities[0]), 0, -1) == [state.urgent.raw]
    due = dict(raw.zrange(made.scheduled(ns), 0, -1, withscores=True))
    assert list(due) == [
        each.raw
        for each in sorted(
            (state.failed, state.later, state.periodic), key=lambda each: due[each.raw]
        )
    ]
    assert due[state.later.raw] > now + 3_500_000
    ((processing, until),) = raw.zrange(made.processing(ns), 0, -1, withscores=True)
    assert processing == state.processing.raw
    assert until > now + 800_000
    if listener:
        assert raw.zrange(made.scheduled(f"{ns}-dead"), 0, -1, withscores=True) == [
            (each, 5000.0) for each in sorted(letter.raw for letter in state.dead)
        ]
    else:
        assert raw.lrange(f"{ns}-dead", 0, -1) == [each.raw for each in reversed(state.dead)]
    said = json.loads(raw.get(made.metadata(ns, state.deleted.id)))
    assert said["deleted"]
    said = json.loads(raw.get(made.metadata(ns, state.superseded.id)))
    assert said["rqueueMessage"]["queuedTime"] != state.superseded.fields["queuedTime"]
    assert raw.smembers("__rq::queues") >= {ns.encode(), *(p.encode() for p in state.priorities)}
