"""Leases and staged writes, from which the Spark source and sink are built, on raw keys."""

from __future__ import annotations

from types import SimpleNamespace

import msgpack
import pytest

from rsmq import BYTES, QueueNotFound
from rsmq.errors import BatchLost, CheckpointSetBack, LeaseTakenOver
from rsmq.operations.restore import RestoredMessage, restore_messages, restore_totals
from rsmq.operations.send_options import check_send
from rsmq.spark.operations import batches as in_flight_batches
from rsmq.spark.operations.batches import (
    Batch,
    DeadLetterPolicy,
    PartLimits,
    acknowledge_leased,
    acquire_ownership,
    delete_expired_leases,
    extend_leased,
    keep_acknowledged,
    lease_messages,
    name_part,
    parse_part_sizes,
    parse_receipts,
    release_leased,
    release_ownership,
    take_over_ownership,
)
from rsmq.spark.operations.staged_writes import (
    decide_write,
    finish_write,
    publish_staged,
    stage_messages,
)
from rsmq.vocabulary.sends import BATCH
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace
from tests.contract.conftest import CLUSTERS, Env

DAY = 86_400


@pytest.fixture(params=["redis", "redis-6.2", *CLUSTERS, "redis-py, RESP3"])
def env(request, mode):
    env = Env(request.param, mode, request)
    yield env
    env.close()


@pytest.fixture
def keys(env, queue):
    return Namespace(env.ns).queue(queue)


def make_batch(lease, number, holder="me"):
    return Batch(lease, number, lease, holder)


FIRST = make_batch("lease", 1)


def lease(env, keys, batch=FIRST, part=0, most=10, **options):
    options = {
        "vt": 60, "latest_ms": None, "lifetime": DAY, "dead_letters": None,
        **options,
    }  # fmt: skip
    namespace = Namespace(env.ns)
    wanted = PartLimits(max_messages=most, **options)
    return env.rsmq.run(lease_messages(namespace, keys, batch, part, wanted))[0]


def part_of(env, keys, batch=FIRST, part=0):
    """Return the messages of a part with valid receipts, as a task of Spark reads them; or None."""
    packed = env.raw.hget(keys.leases, name_part(batch, part))
    if packed is None:
        return None
    receipts, found = parse_receipts(packed), []
    rows = receipts.ids, receipts.receive_counts, receipts.first_received_ms
    for id, count, first_ms in zip(*rows, strict=True):
        body, stored = env.raw.hmget(keys.hash, id, id + b":rc")
        if body is not None and stored == b"%d" % count:
            found.append((id, body, count, first_ms))
    columns = zip(*found, strict=True) if found else [()] * 4
    return SimpleNamespace(
        **dict(
            zip(
                ("ids", "raws", "receive_counts", "first_received_ms"),
                map(list, columns),
                strict=True,
            )
        )
    )


def acknowledge(env, keys, batch=FIRST, part=0):
    namespace = Namespace(env.ns)
    return env.rsmq.run(acknowledge_leased(namespace, keys, batch, part))


def release(env, keys, batch=FIRST, part=0, *, has_policy=False):
    namespace = Namespace(env.ns)
    return env.rsmq.run(release_leased(namespace, keys, batch, part, has_policy=has_policy))


def make_visible(env, keys):
    """Make all messages visible again."""
    for id, _ in env.raw.zscan_iter(keys.zset):
        env.raw.zadd(keys.zset, {id: env.now_ms() - 1})


def test_a_lease_receives_what_the_limits_of_the_queue_allow(env, keys):
    ids = env.rsmq.send_messages("q", ["a", "b", "c"])
    env.rsmq.set_queue_limits("q", max_running=2)

    assert lease(env, keys) == 2
    assert part_of(env, keys).ids == [id.encode() for id in ids[:2]]
    assert env.rsmq.receive_message("q") is None
    assert lease(env, keys, make_batch("lease", 2)) == 0
    acknowledge(env, keys)
    assert lease(env, keys, make_batch("lease", 3)) == 1


def test_a_lease_receives_like_any_client_and_stores_receipts(env, keys):
    ids = env.rsmq.send_messages("q", ["a", "b", "c"])
    before = env.now_ms()

    assert lease(env, keys, most=2) == 2
    scores, fields = env.scores("q"), env.fields("q")
    for id in ids[:2]:
        assert before + 60_000 <= scores[id] <= env.now_ms() + 60_000
        assert fields[f"{id}:rc"] == "1"
        assert before <= int(fields[f"{id}:fr"]) <= env.now_ms()
    assert f"{ids[2]}:rc" not in fields
    assert fields["totalrecv"] == "2"
    stored = env.raw.hgetall(keys.leases)
    assert parse_part_sizes(stored[b"lease:1"]) == [2]
    now, kept, again = msgpack.unpackb(stored[b"lease:1:0"], raw=True)
    assert (kept, again) == ([id.encode() for id in ids[:2]], [])
    assert now == int(fields[f"{ids[0]}:fr"])
    assert DAY * 1000 - 5000 < env.raw.pttl(keys.leases) <= DAY * 1000


def test_a_stored_part_is_not_received_again(env, keys):
    env.rsmq.send_messages("q", ["a", "b", "c"])

    assert [lease(env, keys, most=2), lease(env, keys, most=2)] == [2, 2]
    assert env.fields("q")["totalrecv"] == "2"
    assert lease(env, keys, part=1) == 1
    assert parse_part_sizes(env.raw.hget(keys.leases, "lease:1")) == [2, 1]


def test_a_lease_reports_whether_there_may_be_more_messages(env, keys):
    env.rsmq.create_queue("dead")
    env.rsmq.send_messages("q", ["x" * 1000] * 3)

    def more(part, most, dead_letters=None):
        wanted = PartLimits(
            max_messages=most, vt=0, latest_ms=None, lifetime=DAY, dead_letters=dead_letters
        )
        operation = lease_messages(Namespace(env.ns), keys, FIRST, part, wanted)
        leased = env.rsmq.run(operation)
        assert leased.hidden_until_ms in (0, *env.scores("q").values()) or not leased.messages
        assert bool(leased.hidden_until_ms) is (leased.size is not None)
        return leased[:3]

    assert more(0, 2) == (2, 2000, True)
    assert more(0, 2) == (2, None, True)
    assert more(1, 10) == (3, 3000, False)
    env.rsmq.send_messages("q", ["y"] * 1200)
    env.rsmq.receive_messages("q", 2000, vt=0)
    assert more(2, 10, DeadLetterPolicy("dead", 1)) == (0, 0, True)
    assert more(2, 10, DeadLetterPolicy("dead", 1)) == (0, 0, False)
    assert len(env.scores("dead")) == 1203


def test_a_lease_of_an_empty_queue_stores_nothing(env, keys):
    before = env.state()

    assert lease(env, keys) == 0
    assert env.state() == before


def test_messages_that_become_visible_later_are_not_leased(env, keys):
    env.rsmq.send_message("q", "a")
    latest = env.now_ms()
    env.rsmq.send_message("q", "b", delay=0.05)
    env.elapse("q", 1)

    assert lease(env, keys, latest_ms=latest - 3000) == 0
    assert lease(env, keys, latest_ms=latest) == 2


def test_a_part_is_read_with_counts_and_times(env, keys):
    first = env.rsmq.send_message("q", "a")
    env.rsmq.receive_message("q", vt=0)
    second = env.rsmq.send_message("q", b"\xff\x00", codec=BYTES)
    assert lease(env, keys) == 2
    before = env.state()
    messages = part_of(env, keys)

    assert messages.ids == [first.encode(), second.encode()]
    assert messages.raws == [b"a", b"\xff\x00"]
    assert messages.receive_counts == [2, 1]
    assert [str(ms) for ms in messages.first_received_ms] == [
        env.fields("q")[f"{id}:fr"] for id in (first, second)
    ]
    assert env.state() == before
    assert part_of(env, keys, part=1) is None


def test_messages_of_another_consumer_are_not_read_extended_or_removed(env, keys):
    received_id, kept, deleted_id = env.rsmq.send_messages("q", ["taken", "kept", "gone"])
    lease(env, keys, vt=0)
    env.rsmq.delete_message("q", deleted_id)
    other = env.rsmq.receive_message("q", vt=1)
    assert other.id == received_id
    score = env.scores("q")[received_id]

    assert part_of(env, keys).ids == [kept.encode()]
    extend = extend_leased(keys, FIRST, 0, vt=300, lifetime=DAY)
    assert env.rsmq.run(extend) == (1, 1, env.scores("q")[kept])
    assert env.scores("q")[received_id] == score
    assert env.scores("q")[kept] > env.now_ms() + 290_000
    assert acknowledge(env, keys) == (1, 1)
    assert list(env.scores("q")) == [received_id]
    assert env.rsmq.delete_message(other) is True
    assert set(env.fields("q")) == {
        "vt", "delay", "maxsize", "created", "modified", "totalsent", "totalrecv",
    }  # fmt: skip


def test_an_extension_never_shortens_a_visibility_timeout(env, keys):
    (id,) = env.rsmq.send_messages("q", ["a"])
    lease(env, keys, vt=500)
    score = env.scores("q")[id]

    extend = extend_leased(keys, FIRST, 0, vt=1, lifetime=DAY)
    before = env.now_ms()
    *counts, until_ms = env.rsmq.run(extend)
    assert counts == [1, 0]
    assert before + 1000 <= until_ms < score
    assert env.scores("q")[id] == score


def test_an_acknowledgement_has_an_effect_once(env, keys):
    env.rsmq.send_messages("q", [str(n) for n in range(1000)])
    assert lease(env, keys, most=5000) == 1000
    env.rsmq.send_message("q", "later")

    assert acknowledge(env, keys) == (1000, 0)
    assert acknowledge(env, keys) == (0, 0)
    assert len(env.scores("q")) == 1
    assert env.raw.hexists(keys.leases, "lease:1:0") is False


def acknowledged(env):
    """Return the record of the last acknowledged batch of each query, as msgpack decodes it."""
    stored = env.raw.hgetall(f"{env.ns}:x:acked")
    return {name.decode(): msgpack.unpackb(value, raw=True) for name, value in stored.items()}


def test_the_number_of_a_batch_is_stored_with_its_first_removal_and_never_lowered(env, keys):
    env.rsmq.send_messages("q", ["a", "b", "c"])
    for number in (1, 2, 3):
        lease(env, keys, make_batch("lease", number), most=1)
    before = env.now_ms()
    assert acknowledge(env, keys, make_batch("lease", 2)) == (1, 0)

    [number, undone, until, _] = acknowledged(env)["lease"]
    assert (number, undone) == (2, b"")
    year_ms = 366 * DAY * 1000
    assert before + year_ms <= until <= env.now_ms() + year_ms
    assert year_ms - 5000 < env.raw.pttl(f"{env.ns}:x:acked") <= year_ms
    assert acknowledge(env, keys, make_batch("lease", 1)) == (1, 0)
    assert acknowledged(env)["lease"][0] == 2
    assert acknowledge(env, keys, make_batch("lease", 3)) == (1, 0)
    assert acknowledged(env)["lease"][0] == 3
    # A batch without parts counts, too.
    assert acknowledge(env, keys, make_batch("other", 9)) == (0, 0)
    assert {name: stored[0] for name, stored in acknowledged(env).items()} == {
        "lease": 3, "other": 9,
    }  # fmt: skip


@pytest.mark.parametrize("remove", ["purge_queue", "delete_queue"])
def test_the_number_of_the_last_batch_outlives_the_queues_messages(env, keys, remove):
    env.rsmq.send_messages("q", ["a"])
    lease(env, keys)
    acknowledge(env, keys)
    getattr(env.rsmq, remove)("q")

    assert acknowledged(env)["lease"][0] == 1


def test_nothing_is_received_for_a_batch_that_was_acknowledged(env, keys):
    env.rsmq.send_messages("q", ["a", "b"])
    for number in (1, 2):
        lease(env, keys, make_batch("lease", number), most=1)
    for number in (1, 2):
        acknowledge(env, keys, make_batch("lease", number))
        env.raw.hdel(keys.leases, str(make_batch("lease", number)))  # as a lease does at its end
    env.rsmq.send_message("q", "new")
    before = env.state()
    for number in (1, 2):
        with pytest.raises(CheckpointSetBack) as caught:
            lease(env, keys, make_batch("lease", number))
        assert caught.value.text == (
            "The checkpoint of stream lease was set back, and is older than its queue: it asks for "
            f"batch {number}, but batch 2 was acknowledged already"
        )
        assert isinstance(caught.value, BatchLost)
        assert "consumerGroup=lease it begins behind batch 2" in str(caught.value)

    assert env.state() == before
    assert lease(env, keys, make_batch("another", 1)) == 1


def test_a_lease_that_was_taken_over_receives_nothing(env, keys):
    namespace = Namespace(env.ns)
    env.rsmq.send_messages("q", ["a", "b"])
    assert lease(env, keys, most=1) == 1
    [number, _, until, holder] = acknowledged(env)["lease"]
    assert (number, holder) == (0, b"me")
    assert until > env.now_ms() + DAY * 1000 - 5000
    acknowledge(env, keys)
    assert acknowledged(env)["lease"][::3] == [1, b"me"]

    take_over = take_over_ownership(namespace, "lease", "successor")
    assert [env.rsmq.run(take_over), env.rsmq.run(take_over)] == [1, 1]
    assert acknowledged(env)["lease"][::3] == [1, b"successor"]
    before = env.state()
    for part in (0, 1):
        with pytest.raises(LeaseTakenOver, match="stream lease was taken over"):
            lease(env, keys, make_batch("lease", 2), part)
    assert env.state() == before
    assert lease(env, keys, make_batch("lease", 2, "successor")) == 1
    assert lease(env, keys, make_batch("other", 1)) == 0


def test_the_last_part_of_a_batch_is_released(env, keys):
    ids = env.rsmq.send_messages("q", [str(n) for n in range(5)])
    for part in range(2):
        lease(env, keys, part=part, most=2)
    env.raw.hset(keys.hash, f"{ids[3]}:rc", 2)  # another consumer has received it
    before = env.state()
    for part in (0, 2):
        assert release(env, keys, FIRST, part) == 0
    assert release(env, keys, make_batch("other", 1), 0) == 0
    assert env.state() == before

    assert [release(env, keys, FIRST, 1), release(env, keys, FIRST, 1)] == [1, 0]
    scores = env.scores("q")
    assert scores[ids[2]] == parse_sent_us(ids[2]) // 1000
    assert all(scores[id] > env.now_ms() for id in (ids[0], ids[1], ids[3]))
    assert env.fields("q")[f"{ids[2]}:rc"] == "1"
    assert parse_part_sizes(env.raw.hget(keys.leases, "lease:1")) == [2]
    assert {field.decode() for field in env.raw.hkeys(keys.leases)} == {"lease:1", "lease:1:0"}


@pytest.mark.parametrize(
    "id", ["-" * 32, "f" * 32, "id of another client", "zzzzzzzzzzA" + "0" * 21]
)
def test_a_message_without_a_sent_time_is_released_at_the_time_of_its_receive(env, keys, id):
    env.raw.hset(keys.hash, id, "m")
    env.raw.zadd(keys.zset, {id: 1})
    assert lease(env, keys) == 1
    received_ms = msgpack.unpackb(env.raw.hget(keys.leases, "lease:1:0"), raw=True)[0]
    assert release(env, keys) == 1
    assert env.scores("q") == {id: received_ms}


@pytest.mark.parametrize("own", [None, DeadLetterPolicy("dead", 5)])
def test_a_lease_obeys_the_retention_and_the_limits_of_messages(env, keys, own):
    """The dead-letter policy is that of the queue, or one of the query."""
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy("q", "dead", 5)
    env.rsmq.set_queue_attributes("q", keep=60)
    old = "g0000000001234567890123456789ABC"
    env.raw.hset(keys.hash, old, "old")
    env.raw.zadd(keys.zset, {old: 1})
    late = env.rsmq.send_message("q", "late", expires=60)
    env.raw.hset(keys.limits, late, ":1")
    once = env.rsmq.send_message("q", "once", max_retries=0)
    env.raw.hset(keys.hash, mapping={f"{once}:rc": 1, f"{once}:fr": 1})
    new = env.rsmq.send_message("q", "new", max_retries=3)

    lease(env, keys, dead_letters=own)
    assert part_of(env, keys).ids == [new.encode()]
    assert list(env.scores("dead")) == [once]
    assert list(env.scores("q")) == [new]


@pytest.mark.parametrize("by", ["queue", "stream", None])
def test_a_released_receive_does_not_count_for_a_policy(env, keys, by):
    env.rsmq.create_queue("dead")
    if by == "queue":
        env.rsmq.set_dead_letter_policy("q", "dead", 2)
    (id,) = env.rsmq.send_messages("q", ["a"])
    for number in (1, 2):
        batch = make_batch("lease", number)
        assert lease(env, keys, batch) == 1
        assert release(env, keys, batch, has_policy=by == "stream") == 1
        assert env.raw.exists(keys.leases) == 0
        stored = env.raw.hget(keys.unbegun, id)
        assert stored == (str(number).encode() if by else None)
    policy = None if by == "queue" else DeadLetterPolicy("dead", 2)
    received = lease(env, keys, make_batch("lease", 3), dead_letters=policy)
    assert received == (1 if by else 0)
    assert env.rsmq.get_queue_attributes("dead").messages == (0 if by else 1)


def test_a_process_whose_lease_was_taken_over_releases_nothing(env, keys):
    env.rsmq.send_messages("q", ["a"])
    lease(env, keys)
    namespace = Namespace(env.ns)
    env.rsmq.run(take_over_ownership(namespace, "lease", "successor"))
    before = env.state()
    with pytest.raises(LeaseTakenOver, match="stream lease was taken over"):
        release(env, keys)
    assert env.state() == before
    assert release(env, keys, make_batch("lease", 1, "successor")) == 1


def test_a_part_of_a_partly_acknowledged_batch_is_returned_again(env, keys):
    env.rsmq.send_messages("q", ["a", "b"])
    lease(env, keys, most=1)
    lease(env, keys, part=1, most=1)
    acknowledge(env, keys)

    assert lease(env, keys, part=1) == 1
    assert part_of(env, keys, part=1).raws == [b"b"]
    assert part_of(env, keys, part=0) is None


def test_counts_of_an_acknowledged_batch_stay_until_the_next_one(env, keys):
    namespace = Namespace(env.ns)

    def acknowledge_with(counts, number=1, part=0):
        env.rsmq.run(
            acknowledge_leased(namespace, keys, make_batch("lease", number), part, counts=counts)
        )
        return acknowledged(env)["lease"][:2]

    assert acknowledge_with(b'{"q": 2}') == [1, b'{"q": 2}']
    assert acknowledge_with(b"", part=1) == [1, b'{"q": 2}']
    for operation in (
        keep_acknowledged(namespace, "lease"),
        take_over_ownership(namespace, "lease", "successor"),
    ):
        env.rsmq.run(operation)
        assert acknowledged(env)["lease"][:2] == [1, b'{"q": 2}']
    assert acknowledge_with(b'{"q": 9}', number=0) == [1, b'{"q": 2}']
    assert acknowledge_with(b'{"q": 3}', number=2) == [2, b'{"q": 3}']
    assert acknowledge_with(b"", number=3) == [3, b""]


def test_the_number_of_the_last_batch_is_kept_for_a_year(env, keys, monkeypatch):
    keep = keep_acknowledged(Namespace(env.ns), "lease")
    assert env.rsmq.run(keep) is None
    assert env.state().keys() == {keys.hash, f"{env.ns}:QUEUES".encode()}

    with monkeypatch.context() as patched:
        patched.setattr(in_flight_batches, "ACKNOWLEDGED_SECONDS", 60)
        acknowledge(env, keys, make_batch("lease", 7))
    assert acknowledged(env)["lease"][2] < env.now_ms() + 61_000
    for _ in range(2):
        assert env.rsmq.run(keep) == 7
        [number, _, until] = acknowledged(env)["lease"]
        assert number == 7
        assert until > env.now_ms() + 365 * DAY * 1000
        assert env.raw.pttl(f"{env.ns}:x:acked") > 365 * DAY * 1000
        # A shorter time does not replace it.
        monkeypatch.setattr(in_flight_batches, "ACKNOWLEDGED_SECONDS", 60)
        keep = keep_acknowledged(Namespace(env.ns), "lease")


def test_expired_leases_are_removed(env, keys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(in_flight_batches, "ACKNOWLEDGED_SECONDS", 0.001)
        for number in range(101):
            acknowledge(env, keys, make_batch(f"old{number}", 1))
    acknowledge(env, keys, make_batch("kept", 1))
    while env.raw.hlen(f"{env.ns}:x:acked") > 100:
        acknowledge(env, keys, make_batch("kept", 1))

    assert env.raw.hexists(f"{env.ns}:x:acked", "kept")


def test_a_poison_message_is_moved_instead_of_leased(env, keys):
    env.rsmq.create_queue("dead")
    env.rsmq.create_queue("other")
    poison = env.rsmq.send_message("q", "poison")
    for _ in range(2):
        env.rsmq.receive_message("q", vt=0)

    dead_letters = DeadLetterPolicy("dead", 2)
    assert lease(env, keys, dead_letters=dead_letters) == 0
    assert list(env.scores("dead")) == [poison]
    assert env.fields("dead")[f"{poison}:rc"] == "2"
    assert env.scores("q") == {}


def test_the_policy_of_the_queue_applies_if_the_call_has_none(env, keys):
    env.rsmq.create_queue("dead")
    env.rsmq.set_dead_letter_policy("q", "dead", 1)
    poison = env.rsmq.send_message("q", "poison")
    env.rsmq.receive_message("q", vt=0)

    assert lease(env, keys) == 0
    assert list(env.scores("dead")) == [poison]


def test_only_its_holder_releases_a_lease(env, keys):
    acquire = acquire_ownership(keys, "nightly", "me", seconds=20, lifetime=DAY)
    assert env.rsmq.run(release_ownership(keys, "nightly", "me")) is False
    env.rsmq.run(acquire)
    before = env.state()
    assert env.rsmq.run(release_ownership(keys, "nightly", "other")) is False
    assert env.state() == before
    assert env.rsmq.run(release_ownership(keys, "nightly", "me")) is True
    assert env.raw.exists(keys.leases) == 0


def test_a_lease_has_one_holder(env, keys):
    def hold(holder, seconds):
        return env.rsmq.run(
            acquire_ownership(keys, "nightly", holder, seconds=seconds, lifetime=DAY)
        )

    assert hold("me", 20) == 0
    assert 15 < hold("you", 20) <= 20
    assert hold("me", 0) == 0
    assert hold("you", 20) == 0
    assert 15 < hold("me", 20) <= 20


def test_leases_that_are_not_renewed_are_removed(env, keys):
    env.rsmq.send_messages("q", ["a", "b", "c"])
    lease(env, keys, make_batch("kept", 1), most=1)
    lease(env, keys, make_batch("old", 1), lifetime=0.001, most=1)
    lease(env, keys, make_batch("old", 1), part=1, lifetime=0.001, most=1)
    env.rsmq.run(acquire_ownership(keys, "old", "me", seconds=0, lifetime=DAY))
    removed = 0
    while removed < 4:  # one field of the lease, one of the batch, and two parts
        removed += env.rsmq.run(delete_expired_leases(keys))

    assert set(env.raw.hkeys(keys.leases)) == {b"kept:1", b"kept:1:0"}


def test_receipts_are_stored_for_the_longest_lifetime(env, keys):
    env.rsmq.send_messages("q", ["a", "b"])
    lease(env, keys, make_batch("patient", 1), most=1)
    lease(env, keys, make_batch("other", 1), most=1, lifetime=60)
    env.rsmq.run(extend_leased(keys, make_batch("other", 1), 0, vt=60, lifetime=60))

    assert env.raw.pttl(keys.leases) > DAY * 1000 - 5000


def test_a_missing_queue_is_not_leased(env):
    keys = Namespace(env.ns).queue("nowhere")
    with pytest.raises(QueueNotFound):
        lease(env, keys)
    with pytest.raises(QueueNotFound):
        env.rsmq.run(acquire_ownership(keys, "a", "me", seconds=1, lifetime=DAY))
    assert env.state() == {}


@pytest.fixture
def rows(env, queue):
    """Messages a1, a2, b1, a3 and c1 with groups, and one without; their ids as stored, by body."""
    bodies = ["a1", "a2", "b1", "a3", "c1"]
    sent = env.rsmq.send_messages("q", bodies, groups=[body[0] for body in bodies])
    sent.append(env.rsmq.send_message("q", "plain"))
    return dict(zip([*bodies, "plain"], map(str.encode, sent), strict=True))


def bodies_of(part):
    return [raw.decode() for raw in part.raws]


def test_a_part_with_rows_has_consecutive_messages_of_each_group(env, keys, rows):
    assert lease(env, keys, has_rows=True) == 6

    assert bodies_of(part_of(env, keys)) == ["a1", "a2", "a3", "b1", "c1", "plain"]
    assert env.raw.zrange(keys.held_back, 0, -1) == []
    members = {rows[name] for name in ("a1", "a2", "b1", "a3", "c1")}
    assert {each[2:] for each in env.raw.zrange(keys.admitted, 0, -1)} == members
    assert env.fields("q")["x:limited"] == "2"
    packed = env.raw.hget(keys.leases, name_part(FIRST, 0))
    assert msgpack.unpackb(packed, raw=True)[3] == [2, 3]
    assert set(env.scores("q").values()) == {max(env.scores("q").values())}

    late = env.rsmq.send_message("q", "a4", group="a").encode()
    assert lease(env, keys, make_batch("lease", 2), has_rows=True) == 0
    assert acknowledge(env, keys) == (6, 0)
    assert [each[2:] for each in env.raw.zrange(keys.admitted, 0, -1)] == [late]
    assert env.raw.hkeys(keys.group_of) == [late]
    assert env.rsmq.receive_message("q").body == "a4"


def test_a_part_without_rows_has_the_receipts_of_before(env, keys, rows):
    assert lease(env, keys) == 4
    packed = env.raw.hget(keys.leases, name_part(FIRST, 0))
    assert len(msgpack.unpackb(packed, raw=True)) == 3
    assert "x:limited" not in env.fields("q")
    second = make_batch("lease", 2)
    assert lease(env, keys, second, has_rows=True) == 0


def test_a_row_ends_at_the_limits_of_a_part(env, keys, rows):
    assert lease(env, keys, most=2, has_rows=True) == 2
    assert bodies_of(part_of(env, keys)) == ["a1", "a2"]
    assert lease(env, keys, part=1, most=3, has_rows=True) == 3
    assert bodies_of(part_of(env, keys, part=1)) == ["b1", "c1", "plain"]
    assert acknowledge(env, keys) == (2, 0)
    third = make_batch("lease", 2)
    assert lease(env, keys, third, max_bytes=2, has_rows=True) == 1
    assert bodies_of(part_of(env, keys, third)) == ["a3"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_messages_behind_a_lost_one_of_their_group_are_given_up(env, keys, rows, is_gone):
    lease(env, keys, has_rows=True)
    if is_gone:
        env.rsmq.delete_message("q", rows["a2"].decode())
    else:
        env.raw.hincrby(keys.hash, rows["a2"] + b":rc", 1)
    receipts = parse_receipts(env.raw.hget(keys.leases, name_part(FIRST, 0)))
    valid = [id != rows["a2"] for id in receipts.ids]
    assert [receipts.ids[at] for at in receipts.find_valid(valid)] == [
        rows[name] for name in ("a1", "b1", "c1", "plain")
    ]

    assert acknowledge(env, keys) == (4, 1 if is_gone else 2)

    left = {"a3"} if is_gone else {"a2", "a3"}
    assert set(env.scores("q")) == {rows[name].decode() for name in left}
    assert env.raw.exists(keys.leases) == 0 or not env.raw.hexists(keys.leases, name_part(FIRST, 0))


@pytest.mark.parametrize("remove", ["delete_queue", "purge_queue"])
def test_extension_data_is_removed_with_the_messages(env, keys, remove):
    env.rsmq.send_messages("q", ["a", "b"])
    lease(env, keys, most=1)
    stage(env, keys, "w:0:a:0", [b"later"])
    getattr(env.rsmq, remove)("q")

    extensions = {key for key in env.raw.keys(f"{env.ns}:*") if b":x:" in key}
    assert extensions == {f"{env.ns}:x:acked".encode()}  # it is not the queue's


def stage(env, keys, part, messages, **options):
    options = {"largest": 10, "lifetime": DAY, **options}
    return env.rsmq.run(stage_messages(Namespace(env.ns), keys, part, messages, **options))


def adopt(env, batch, decision, write="w"):
    namespace = Namespace(env.ns)
    return env.rsmq.run(decide_write(namespace, write, batch, decision, lifetime=DAY))


def publish(env, keys, part, *, realtime=False):
    return env.rsmq.run(publish_staged(keys, part, realtime=realtime))


def finish(env, batch, write="w"):
    return env.rsmq.run(finish_write(Namespace(env.ns), write, batch, lifetime=DAY))


def test_staged_messages_are_stored_when_they_are_published(env, keys):
    stage(env, keys, "w:0:a:0", [b"one", b"\xfftwo"])
    assert env.scores("q") == {}
    assert 0 < env.raw.pttl(keys.staged) <= DAY * 1000

    assert publish(env, keys, "w:0:a:0") == 2
    assert publish(env, keys, "w:0:a:0") == 0
    assert publish(env, keys, "w:0:a:1") is None
    messages = env.rsmq.peek_messages("q")
    assert [message.raw for message in messages] == [b"one", b"\xfftwo"]
    assert all(len(message.id) == 32 for message in messages)
    assert env.fields("q")["totalsent"] == "2"
    assert env.raw.hgetall(keys.staged) == {b"w:0:a:0": b""}


def test_a_delay_counts_from_the_publishing(env, keys):
    stage(env, keys, "w:0:a:0", [b"one"], delay=b"20000")
    before = env.now_ms()
    publish(env, keys, "w:0:a:0")

    (score,) = env.scores("q").values()
    assert before + 20_000 <= score <= env.now_ms() + 20_000


def test_staged_messages_have_the_options_of_their_send(env, keys):
    names = {"groups": ["g", "g"], "dedup_ids": ["x", "y"]}
    values = {**names, "max_retries": 3, "expires": 900, "track": True}
    _, options = check_send(values, BATCH, 2)
    stage(env, keys, "w:0:a:0", [b"one", b"two"], options=options)
    stage(env, keys, "w:0:a:1", [b"one", b"three"], options=options)
    assert env.scores("q") == {}

    assert publish(env, keys, "w:0:a:0") == 2
    assert publish(env, keys, "w:0:a:0") == 0
    assert publish(env, keys, "w:0:a:1") == 0  # their dedup_ids were sent before

    found = env.rsmq.peek_messages("q", 0, 10)
    assert [(each.raw, each.group) for each in found] == [(b"one", "g"), (b"two", "g")]
    ids = [each.id.encode() for each in found]
    assert [each[2:] for each in env.raw.zrange(keys.admitted, 0, -1)] == ids[:1]
    assert [each[2:] for each in env.raw.zrange(keys.held_back, 0, -1)] == ids[1:]
    limits = env.raw.hgetall(keys.limits)
    assert {id: limits[id].partition(b":")[0] for id in ids} == dict.fromkeys(ids, b"3")
    assert all(env.raw.exists(keys.job(each.id)) for each in found)
    assert {b"x", b"y"} <= set(env.raw.hkeys(keys.dedup))
    assert env.fields("q")["totalsent"] == "2"


def test_a_publishing_notifies_once(env, keys):
    stage(env, keys, "w:0:a:0", [b"one", b"two"])
    with env.raw.pubsub() as pubsub:
        pubsub.subscribe(keys.channel)
        pubsub.get_message(timeout=5)
        publish(env, keys, "w:0:a:0", realtime=True)
        assert pubsub.get_message(timeout=5)["data"] == b"2"
        assert pubsub.get_message(timeout=0) is None


def test_a_write_is_decided_once_for_each_batch(env, keys):
    for attempt in "ab":
        stage(env, keys, f"w:0:{attempt}:0", [b"one"])

    assert adopt(env, 0, {"q": ["w:0:a:0"]}) == (0, {"q": ["w:0:a:0"]})
    assert adopt(env, 0, {"q": ["w:0:b:0"]}) == (0, {"q": ["w:0:a:0"]})
    assert adopt(env, 1, {"q": ["w:0:b:0"]}) == (0, {"q": ["w:0:a:0"]})
    assert finish(env, 0) == 0
    assert adopt(env, 0, {"q": ["w:0:b:0"]}) == (0, None)
    assert adopt(env, 1, {"q": ["w:0:b:0"]}) == (1, {"q": ["w:0:b:0"]})
    assert finish(env, 0) == 1
    assert adopt(env, 2, {}) == (1, {"q": ["w:0:b:0"]})
    assert 0 < env.raw.pttl(f"{env.ns}:x:written") <= DAY * 1000


def test_expired_writes_are_removed(env, keys):
    namespace = Namespace(env.ns)
    finish(env, 0, "kept")
    for number in range(101):
        done = finish_write(namespace, f"w{number}", 0, lifetime=0.001)
        env.rsmq.run(done)
    while env.raw.hlen(namespace.written) > 100:
        finish(env, 0, "kept")

    assert env.raw.hexists(namespace.written, "kept")
    assert env.raw.hlen(namespace.written) < 100


def test_nothing_is_decided_when_parts_are_missing(env, keys):
    env.rsmq.create_queue("r")
    stage(env, keys, "w:0:a:0", [b"one"])

    assert adopt(env, 0, {"q": ["w:0:a:0"], "r": ["w:0:a:0"]}) is None
    assert env.raw.exists(f"{env.ns}:x:written") == 0


def test_a_message_too_long_is_refused_when_it_is_staged(env, keys):
    from rsmq import MessageTooLong

    with pytest.raises(MessageTooLong):
        stage(env, keys, "w:0:a:0", [b"one"], largest=70_000)
    with pytest.raises(QueueNotFound):
        stage(env, Namespace(env.ns).queue("nowhere"), "w:0:a:0", [b"one"])
    assert env.raw.exists(keys.staged) == 0


@pytest.mark.parametrize("staged", [False, True])
def test_messages_are_restored_as_they_were(env, keys, staged):
    ids = env.rsmq.send_messages("q", ["a", "b", "c"], delay=100)
    received = env.rsmq.send_message("q", "d")
    env.rsmq.receive_message("q", vt=500)
    scores, fields = env.scores("q"), env.fields("q")
    rows = [
        RestoredMessage(
            id,
            fields[id].encode(),
            int(scores[id]),
            int(fields.get(f"{id}:rc", 0)),
            int(fields[f"{id}:fr"]) if f"{id}:fr" in fields else None,
        )
        for id in [*ids, received]
    ]
    env.rsmq.purge_queue("q")
    env.rsmq.send_message("q", "new")
    for expected in (4, 0):
        if staged:
            stage(env, keys, "w:0:a:0", rows)
            assert publish(env, keys, "w:0:a:0") == expected
        else:
            restore = restore_messages(keys, rows, largest=1, realtime=False)
            assert env.rsmq.run(restore) == expected

    now_scores, now_fields = env.scores("q"), env.fields("q")
    assert {id: now_scores[id] for id in scores} == scores
    message_fields = {name for name in fields if len(name) >= 32}
    assert {name: now_fields[name] for name in message_fields} == {
        name: fields[name] for name in message_fields
    }
    assert now_fields["totalsent"] == str(4 + 1 + 4)


def test_totals_are_raised_and_never_lowered(env, keys):
    from dataclasses import replace
    from datetime import UTC, datetime

    env.rsmq.send_messages("q", ["a", "b"])
    attributes = env.rsmq.get_queue_attributes("q")
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)

    def restore(**values):
        env.rsmq.run(restore_totals(keys, replace(attributes, **values)))
        fields = env.fields("q")
        return fields["totalsent"], fields.get("totalrecv"), fields["created"]

    created = env.fields("q")["created"]
    assert restore(total_sent=1, total_received=0) == ("2", None, created)
    assert restore(total_sent=9, total_received=5, created=long_ago) == ("9", "5", "1577836800")
    assert restore(total_sent=3, total_received=3) == ("9", "5", "1577836800")
