"""
Randomly damaged queues: after repairs the invariants hold, and no message is lost.

Invariants:
- Every id has a body, and every body has an id.
- A receive count has a time of the first receive, the time a count, and both have a message.
- No score is later than any client may hide a message.
- Every listed name is a queue, and every queue is listed.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsmq.doctor import examine, repair
from rsmq.doctor.catalogue import _SERVER, OPT_IN_REPAIRS
from tests.scale import scaled

NOW = 1795264742384
ATTRIBUTES = {"vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv"}

IDS = st.sampled_from(
    ["hod98j94h7HkqVvzKrlMYXegVzlPtuL" + letter for letter in "abcdefgh"]
    + ["AbCdEfGhIjKlMnOpQrStU" + letter for letter in "abc"]
    + ["mwpbripkB" + "y" * 20 + letter for letter in "abc"]
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "score": st.sampled_from([NOW, NOW + 7, 5, NOW // 1000, NOW * 1000, NOW * 10, "inf", -3]),
        "body": st.sampled_from(["", "m", "x" * 300]),
        "rc": st.sampled_from(["1", "7", "1.5", "", "99999999999999999999"]),
        "fr": st.sampled_from([str(NOW), str(NOW // 1000), "x", ""]),
    },
)
FIELDS = st.dictionaries(
    st.sampled_from(sorted(ATTRIBUTES)),
    st.sampled_from([None, "0.5", "-1", "NaN", "30000", "2026-11-20T18:37:58.8Z", "99999999999"]),
    max_size=4,
)


def store_damaged_queue(raw, ns, fields, messages, listed):
    zset, hash = f"{ns}:q", f"{ns}:q:Q"
    raw.delete(zset, hash, f"{ns}:QUEUES")
    attributes = {
        "vt": 30,
        "delay": 0,
        "maxsize": 65536,
        "created": 1795264741,
        "modified": 1795264741,
    }
    attributes |= fields
    stored = {name: value for name, value in attributes.items() if value is not None}
    for id, parts in messages.items():
        if "score" in parts:
            raw.zadd(zset, {id: parts["score"]})
        if "body" in parts:
            stored[id] = parts["body"]
        stored |= {f"{id}:{name}": parts[name] for name in ("rc", "fr") if name in parts}
    if stored:
        raw.hset(hash, mapping=stored)
    if listed:
        raw.sadd(f"{ns}:QUEUES", "q")


def read(raw, ns):
    fields = {name.decode(): value.decode() for name, value in raw.hgetall(f"{ns}:q:Q").items()}
    scores = dict(raw.zrange(f"{ns}:q", 0, -1, withscores=True))
    return fields, {id.decode(): score for id, score in scores.items()}


def find_faults(rsmq):
    return [each for each in examine(rsmq).findings if each.code not in _SERVER]


@pytest.fixture
def without_grace(monkeypatch):
    """Repair young bodies without a pause: no send is in progress."""
    monkeypatch.setattr("rsmq.doctor.repairer.GRACE_MS", 0)


@settings(
    max_examples=scaled(120, 5000), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    fields=FIELDS,
    messages=st.dictionaries(IDS, MESSAGES, max_size=8),
    listed=st.booleans(),
    with_also=st.booleans(),
)
def test_repair_restores_invariants_and_loses_no_message(
    rsmq, raw, ns, without_grace, fields, messages, listed, with_also
):
    store_damaged_queue(raw, ns, fields, messages, listed)
    before, scores_before = read(raw, ns)
    also = [way for way in OPT_IN_REPAIRS if with_also and way != "orphan-body:remove"]
    for _ in range(3):  # one repair may make another fault visible
        repair(rsmq, find_faults(rsmq), also=also)
    after, scores = read(raw, ns)

    # A message is an id in the queue that has a body.
    old = {id for id in scores_before if id in before}
    kept = sorted(after[id] for id in scores if id in after)
    if with_also:
        everything = [before[id] for id in messages if id in before]
        assert kept == sorted(everything)
    else:
        assert kept == sorted(before[id] for id in old)
        assert {id: scores[id] for id in old} == {id: scores_before[id] for id in old}
        assert all(after[id] == before[id] for id in messages if id in before)
        counts = {id: before.get(f"{id}:rc") for id in old}
        assert all(after[f"{id}:rc"] == rc for id, rc in counts.items() if rc in {"1", "7"})

    rest = [each for each in find_faults(rsmq) if each.severity != "note"]
    if with_also:
        assert rest == []
        assert_invariants(raw, ns, after, scores)
    else:
        assert not [each for each in rest if each.safe]
    before_again = raw.dump(f"{ns}:q:Q"), raw.dump(f"{ns}:q")
    assert [done.number for done in repair(rsmq, find_faults(rsmq), also=also)] in ([], [0])
    assert (raw.dump(f"{ns}:q:Q"), raw.dump(f"{ns}:q")) == before_again


def assert_invariants(raw, ns, fields, scores):
    if not fields:
        assert (scores, raw.smembers(f"{ns}:QUEUES")) == ({}, set())
        return
    assert fields.keys() >= {"vt", "delay", "maxsize"}
    assert raw.smembers(f"{ns}:QUEUES") == {b"q"}
    bodies = {name for name in fields if ":" not in name} - ATTRIBUTES
    assert bodies == scores.keys()
    counted = {name.removesuffix(":rc") for name in fields if name.endswith(":rc")}
    timed = {name.removesuffix(":fr") for name in fields if name.endswith(":fr")}
    assert counted == timed <= bodies
    limit = NOW + 9_999_999_000 + 86_400_000 * 365
    assert all(score <= limit for score in scores.values())
