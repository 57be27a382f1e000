"""The simulated states of Rqueue agree with its sources."""

from __future__ import annotations

import json

import pytest

from tests.migrate.rqueue_states import convert, fill_queue


def test_message_begins_with_its_class_and_failure_count(create_rqueue):
    # Rqueue's own script rewrites the count at its position in the text.
    for release in (3, 4):
        raw = create_rqueue(release=release).message("q", "m").raw.decode()
        assert raw.startswith('{"@class":"com.github.sonus21.rqueue.core.RqueueMessage",')
        assert raw[58:73] == 'failureCount":0'


def test_releases_order_the_other_fields_differently(create_rqueue):
    fields = {
        release: list(json.loads(create_rqueue(release=release).message("q", "m").raw))[3:]
        for release in (3, 4)
    }

    assert fields[4] == sorted(fields[4])
    assert fields[3][:2] == ["queueName", "message"]
    assert fields[3] != fields[4]
    assert set(fields[3]) == set(fields[4])


def test_default_converter_wraps_texts():
    assert convert("a") == r'{"msg":"\"a\"","name":"java.lang.String"}'


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, ("__rq::queue::{q}", "__rq::d-queue::{q}", "__rq::p-queue::{q}")),
        ({"tagged": False}, ("__rq::queue::q", "__rq::d-queue::q", "__rq::p-queue::q")),
        ({"version": 1}, ("q", "rqueue-delay::q", "rqueue-processing::q")),
    ],
)
def test_keys_are_named_by_layout(create_rqueue, raw, options, keys):
    rqueue = create_rqueue(**options)

    assert (rqueue.ready("q"), rqueue.scheduled("q"), rqueue.processing("q")) == keys
    assert int(raw.get("__rq::version")) == rqueue.version


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("listener", [False, True])
def test_filled_queue_has_one_message_of_each_kind(create_rqueue, raw, ns, version, listener):
    rqueue = create_rqueue(version=version, release=3)
    state = fill_queue(rqueue, ns, listener=listener)
    now = rqueue.now_ms()

    assert raw.lrange(rqueue.ready(ns), 0, -1) == [
        state.ready[0].raw, state.deleted.raw, state.superseded.raw, state.ready[1].raw
    ]  # fmt: skip
    assert raw.lrange(rqueue.ready(state.priorities[0]), 0, -1) == [state.urgent.raw]
    due = dict(raw.zrange(rqueue.scheduled(ns), 0, -1, withscores=True))
    assert list(due) == [
        each.raw
        for each in sorted(
            (state.failed, state.later, state.periodic), key=lambda each: due[each.raw]
        )
    ]
    assert due[state.later.raw] > now + 3_500_000
    ((processing, visible_at),) = raw.zrange(rqueue.processing(ns), 0, -1, withscores=True)
    assert processing == state.processing.raw
    assert visible_at > now + 800_000
    if listener:
        assert raw.zrange(rqueue.scheduled(f"{ns}-dead"), 0, -1, withscores=True) == [
            (each, 5000.0) for each in sorted(letter.raw for letter in state.dead)
        ]
    else:
        assert raw.lrange(f"{ns}-dead", 0, -1) == [each.raw for each in reversed(state.dead)]
    metadata = json.loads(raw.get(rqueue.metadata(ns, state.deleted.id)))
    assert metadata["deleted"]
    metadata = json.loads(raw.get(rqueue.metadata(ns, state.superseded.id)))
    assert metadata["rqueueMessage"]["queuedTime"] != state.superseded.fields["queuedTime"]
    assert raw.smembers("__rq::queues") >= {ns.encode(), *(p.encode() for p in state.priorities)}
