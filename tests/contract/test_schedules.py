"""Schedules: the stored definitions, and the messages of their ticks. The tests set the ticks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from rsmq import BYTES, JSON, InvalidFormat, InvalidValue, MissingParameter, NotPossible
from rsmq.errors import MessageNotString, QueueNotFound
from rsmq.schedules import operations
from rsmq.schedules.definition import make_definition
from rsmq.schedules.operations import (
    SCHEDULES_PER_LOOK,
    fire_due_schedules,
    fire_schedule,
    plan_due,
    read_due_schedules,
    store_definition,
)
from rsmq.wire.keys import Namespace
from tests.expect import refused

WITH_OPTIONS = (
    '{"form": 2, "queue": "q", "every": 60, "body": "", "size": 0, "missed": "once", "jitter": 0, '
    '"realtime": false, "version": 0, "source": "call", %s}'
)
BERLIN = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}


def stored(env):
    """The fields of all schedules, as text, and the sorted set of the next attempts."""
    fields = env.raw.hgetall(f"{env.ns}:x:schedules")
    due = env.raw.zrange(f"{env.ns}:x:due", 0, -1, withscores=True)
    return (
        {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()},
        {name.decode(): score for name, score in due},
    )


def make_due(env, name, ago_ms=0, *, every_ms=60_000):
    """Set the tick of a schedule to the last one that is so long ago, and return it."""
    now = env.now_ms() if env.backend != "memory" else int(datetime.now(UTC).timestamp() * 1000)
    tick = (now - ago_ms) // every_ms * every_ms
    env.raw.hset(f"{env.ns}:x:schedules", f"{name}:tick", tick)
    env.raw.zadd(f"{env.ns}:x:due", {name: tick})
    return tick


def fire(env):
    return env.rsmq.run_steps(fire_due_schedules(Namespace(env.ns)))


def declare(env, name, version, **options):
    """Store a definition as a worker does that declares it in code."""
    arguments = {"every": 60, "queue": "q", "body": b"", "version": version, **options}
    namespace = Namespace(env.ns)
    definition = make_definition(
        namespace, name, arguments, codec=BYTES, realtime=False, source="code"
    )
    return env.rsmq.run_steps(store_definition(namespace, definition, keeps_version=False))


def test_a_schedule_is_readable_json_beside_its_next_tick(env):
    schedules = env.rsmq.schedules
    assert schedules.add("report", **BERLIN, queue="q", body={"a": 1}, codec=JSON) is True

    fields, due = stored(env)
    assert json.loads(fields.pop("report")) == {
        "form": 1, "queue": "q", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
        "body": '{"a":1}', "size": 7, "missed": "once", "jitter": 0.0, "realtime": False,
        "version": 0, "source": "call",
    }  # fmt: skip
    found = schedules.get("report")
    tick = round(found.next_tick_at.timestamp() * 1000)
    assert fields == {"report:tick": str(tick)}
    assert due == {"report": tick}
    assert found.upcoming(2)[1] - found.next_tick_at >= timedelta(hours=23)
    assert schedules.list() == [found]
    assert schedules.get("other") is None


def test_adding_it_again_changes_nothing_and_another_body_keeps_the_tick(env):
    schedules = env.rsmq.schedules
    schedules.add("a", every=60, queue="q", body="one")
    tick = make_due(env, "a", 120_000)
    before = env.state()

    assert schedules.add("a", every=timedelta(minutes=1), queue="q", body="one") is False
    assert env.state() == before
    assert schedules.add("a", every=60, queue="q", body="two") is True
    assert stored(env)[1] == {"a": tick}
    assert schedules.add("a", every=3600, queue="q", body="two") is True
    assert stored(env)[1]["a"] > tick + 120_000


def test_a_tick_becomes_an_ordinary_message(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue, body="hi")
    tick = make_due(env, "a")
    found = fire(env)

    (id,) = found.fired["a"]
    fields = env.fields(queue)
    assert (fields[id], fields["totalsent"]) == ("hi", "1")
    assert list(env.scores(queue)) == [id]
    state, due = stored(env)
    assert state["a:tick"] == str(tick + 60_000)
    assert state["a:last"].split()[::2] == [str(tick), id]
    assert due == {"a": tick + 60_000}
    message = env.rsmq.receive_message(queue)
    assert (message.id, message.body) == (id, "hi")
    assert message.scheduled_at == datetime.fromtimestamp(tick / 1000, UTC)
    assert env.rsmq.schedules.get("a").last_message_id == id
    assert env.rsmq.get_message(queue, env.rsmq.send_message(queue, "x")).scheduled_at is None


def test_a_definition_with_options_has_a_form_that_older_versions_leave_alone(env):
    """They would send messages without the options."""
    env.rsmq.schedules.add(
        "a", every=60, queue="q", unique_key="k", expires=timedelta(minutes=5), max_retries=0
    )
    assert json.loads(stored(env)[0]["a"]) == {
        "form": 2, "queue": "q", "every": 60.0, "body": "", "size": 0, "missed": "once",
        "jitter": 0.0, "realtime": False, "version": 0, "source": "call", "unique_key": "k",
        "expires": 300.0, "max_retries": 0,
    }  # fmt: skip
    definition = env.rsmq.schedules.get("a").definition
    assert (definition.unique_key, definition.expires, definition.max_retries) == ("k", 300.0, 0)
    assert env.rsmq.schedules.add("a", every=60, queue="q") is True
    assert json.loads(stored(env)[0]["a"])["form"] == 1


@pytest.mark.parametrize("missed", ["once", "all"])
def test_a_tick_sends_nothing_while_a_message_of_its_schedule_is_there(env, queue, missed):
    schedules = env.rsmq.schedules
    schedules.add("a", every=60, queue=queue, body="hi", missed=missed, unique_key="report")
    make_due(env, "a", 240_000)
    (first,) = fire(env).fired["a"]
    assert env.raw.hgetall(f"{env.ns}:{queue}:x:unique") == {b"report": first.encode()}

    tick = make_due(env, "a", 120_000)
    before = env.scores(queue), env.fields(queue)
    found = fire(env)
    assert (found.fired, found.joined) == ({"a": []}, {"a": first})
    assert (env.scores(queue), env.fields(queue)) == before
    last_tick, _, last_id = stored(env)[0]["a:last"].split()
    assert (int(last_tick), last_id) == (tick + 120_000, first)
    assert schedules.get("a").next_tick_at > schedules.get("a").last_tick_at
    assert schedules.run_now("a") == first

    message = env.rsmq.receive_message(queue)  # in flight it has the key, too
    make_due(env, "a")
    assert fire(env).fired["a"] == []
    assert env.rsmq.delete_message(message)
    make_due(env, "a")
    (second,) = fire(env).fired["a"]
    assert second != first
    assert list(env.scores(queue)) == [second]
    assert env.rsmq.send_message(queue, "by a send", unique_key="report") == second


def test_messages_of_a_schedule_have_its_limits(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue, missed="all", expires=90, max_retries=4)
    make_due(env, "a", 120_000)
    ids = [*fire(env).fired["a"], env.rsmq.schedules.run_now("a")]
    records = env.raw.hgetall(f"{env.ns}:{queue}:x:limits")
    scores = env.scores(queue)

    assert len(ids) == 4
    assert {id.decode(): record.decode() for id, record in records.items()} == {
        id: f"4:{int(scores[id]) + 90_000}" for id in ids
    }
    assert env.fields(queue)["x:limited"] == "1"
    assert not env.raw.exists(f"{env.ns}:{queue}:x:unique")


def test_messages_that_would_expire_before_they_are_visible_keep_the_tick_and_say_so(env):
    env.rsmq.create_queue("slow", delay=30)
    env.rsmq.schedules.add("a", every=60, queue="slow", expires=30)
    tick = make_due(env, "a")
    assert "expires" in fire(env).failures["a"]
    assert stored(env)[0]["a:tick"] == str(tick)
    assert env.scores("slow") == {}


def test_a_schedule_without_options_uses_the_keys_of_a_plain_send(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue)
    make_due(env, "a")
    now, _, (due,) = env.rsmq.run(read_due_schedules(Namespace(env.ns)))
    definition, plan = plan_due(due, now)
    operation = fire_schedule(Namespace(env.ns), definition, due, plan)
    assert operation.script.name == "fire_schedule"
    assert len({*operation.keys}) == 4


def test_a_tick_is_fired_once_however_often_it_is_tried(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue)
    tick = make_due(env, "a")
    namespace = Namespace(env.ns)
    now, _, (due,) = env.rsmq.run(read_due_schedules(namespace))
    definition, plan = plan_due(due, now)

    first, *others = [
        env.rsmq.run(fire_schedule(namespace, definition, due, plan)) for _ in range(5)
    ]
    assert len(first.ids) == 1
    assert others == [None] * 4
    assert len(env.scores(queue)) == 1
    env.raw.hset(f"{env.ns}:x:schedules", "a:tick", tick + 60_000)
    assert fire(env).fired == {}  # the next tick is not due


def test_a_changed_or_paused_schedule_is_not_fired_by_one_who_has_read_it_before(env, queue):
    schedules, namespace = env.rsmq.schedules, Namespace(env.ns)
    schedules.add("a", every=60, queue=queue)
    make_due(env, "a")
    now, _, (due,) = env.rsmq.run(read_due_schedules(namespace))
    operation = fire_schedule(namespace, *plan_due(due, now)[:1], due, plan_due(due, now)[1])
    schedules.pause("a")
    assert env.rsmq.run(operation) is None
    schedules.resume("a")
    make_due(env, "a")
    schedules.add("a", every=60, queue=queue, body="changed")
    assert env.rsmq.run(operation) is None
    assert env.scores(queue) == {}


def test_all_missed_ticks_are_sent_in_order(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue, missed="all", body="{}", tick_field="tick")
    tick = make_due(env, "a", 240_000)
    ids = fire(env).fired["a"]

    messages = env.rsmq.receive_messages(queue, 100)
    assert [message.id for message in messages] == ids == sorted(ids)
    ticks = [datetime.fromtimestamp(tick / 1000 + 60 * each, UTC) for each in range(5)]
    assert [message.scheduled_at for message in messages] == ticks
    assert [json.loads(message.body)["tick"] for message in messages] == [
        each.isoformat().replace("+00:00", "Z") for each in ticks
    ]
    assert env.fields(queue)["totalsent"] == "5"


def test_missed_ticks_are_combined_or_skipped(env, queue):
    schedules = env.rsmq.schedules
    schedules.add("once", every=3600, queue=queue, missed="once")
    schedules.add("skip", every=86_400 * 7, queue=queue, missed="skip")
    make_due(env, "once", 36_000_000, every_ms=3_600_000)
    week = make_due(env, "skip", 86_400_000 * 7, every_ms=86_400_000 * 7)
    found = fire(env)

    assert len(found.fired["once"]) == 1
    assert found.fired["skip"] == []
    assert stored(env)[0]["skip:last"].split()[2] == "-"
    assert env.rsmq.schedules.get("skip").last_message_id is None
    assert stored(env)[1]["skip"] > week
    assert len(env.scores(queue)) == 1


def test_a_missing_queue_keeps_the_tick_and_says_so(env):
    env.rsmq.schedules.add("a", every=60, queue="later")
    tick = make_due(env, "a")
    failures = fire(env).failures

    assert failures == {"a": str(QueueNotFound("later", env.ns))}
    found = env.rsmq.schedules.get("a")
    assert (found.failure, found.failures) == (failures["a"], 1)
    assert found.next_attempt_at > found.failed_at
    assert stored(env)[0]["a:tick"] == str(tick)
    assert fire(env).failures == {}  # it waits for its pause
    make_due(env, "a")
    fire(env)
    assert env.rsmq.schedules.get("a").failures == 2
    env.rsmq.create_queue("later")
    make_due(env, "a")
    assert len(fire(env).fired["a"]) == 1
    assert env.rsmq.schedules.get("a").failure is None


def test_a_body_that_is_too_long_for_the_queue_is_kept(env, queue):
    env.rsmq.set_queue_attributes(queue, maxsize=1024)
    env.rsmq.schedules.add("a", every=60, queue=queue, body="x" * 1025)
    make_due(env, "a")

    assert "Message too long" in fire(env).failures["a"]
    assert env.scores(queue) == {}


@pytest.mark.parametrize("options", [{}, {"unique_key": "k"}, {"max_retries": 1}])
def test_a_full_server_keeps_the_tick_and_says_so(env, queue, options):
    if env.backend == "memory":
        pytest.skip("memory:// has no limit of its memory")
    env.rsmq.schedules.add("a", every=60, queue=queue, **options)
    tick = make_due(env, "a")
    fields = env.fields(queue)
    with env.full():
        assert "maxmemory" in fire(env).failures["a"]
    assert "maxmemory" in env.rsmq.schedules.get("a").failure
    assert stored(env)[0]["a:tick"] == str(tick)
    assert (env.fields(queue), env.scores(queue)) == (fields, {})
    make_due(env, "a")
    assert len(fire(env).fired["a"]) == 1


def test_the_delay_of_the_queue_and_its_notification_are_those_of_a_send(env):
    client = env.client(realtime=env.backend != "acl")  # its admin may not publish
    client.create_queue("slow", delay=100)
    client.schedules.add("a", every=60, queue="slow")
    make_due(env, "a")
    (id,) = fire(env).fired["a"]

    now = env.now_ms() if env.backend != "memory" else int(datetime.now(UTC).timestamp() * 1000)
    assert env.scores("slow")[id] > now + 50_000
    assert json.loads(stored(env)[0]["a"])["realtime"] is (env.backend != "acl")


def test_pause_resume_run_now_and_remove(env, queue):
    schedules = env.rsmq.schedules
    schedules.add("a", every=60, queue=queue, body="b")
    make_due(env, "a")
    assert [schedules.pause("a"), schedules.pause("a")] == [True, False]
    assert stored(env)[1] == {"a": float("inf")}
    found = schedules.get("a")
    assert found.paused_at is not None
    assert (found.next_tick_at, found.upcoming(3)) == (None, [])
    assert fire(env).fired == {}
    schedules.add("a", every=60, queue=queue, body="c")  # stays paused
    assert stored(env)[1] == {"a": float("inf")}
    id = schedules.run_now("a")
    assert env.fields(queue)[id] == "c"
    assert env.rsmq.receive_message(queue).scheduled_at is None
    assert [schedules.resume("a"), schedules.resume("a")] == [True, False]
    assert schedules.get("a").next_tick_at > found.paused_at
    assert [schedules.remove("a"), schedules.remove("a")] == [True, False]
    assert stored(env) == ({}, {})


def test_what_needs_a_schedule_refuses_an_unknown_name(env):
    for call in ("pause", "resume", "run_now"):
        with pytest.raises(NotPossible, match="There is no schedule 'a'") as info:
            getattr(env.rsmq.schedules, call)("a")
        assert info.value.value == "a"
    assert env.state() == {}


def test_an_older_deployment_does_not_replace_a_newer_one(env):
    assert declare(env, "a", 2, body=b"new") is True
    assert declare(env, "a", 1, body=b"old") is False
    assert env.rsmq.schedules.get("a").definition.body == b"new"
    assert declare(env, "a", 2, body=b"other") is True  # the last start with a version decides
    assert declare(env, "a", 3, body=b"newest") is True
    assert env.rsmq.schedules.get("a").definition.version == 3


def test_code_replaces_a_change_at_run_time_only_with_a_later_version(env):
    declare(env, "a", 2, body=b"code")
    env.rsmq.schedules.add("a", every=60, queue="q", body="call")
    definition = env.rsmq.schedules.get("a").definition
    assert (definition.body, definition.version, definition.source) == (b"call", 2, "call")
    assert declare(env, "a", 2, body=b"code") is False
    env.rsmq.schedules.pause("a")
    assert declare(env, "a", 3, body=b"code") is True
    found = env.rsmq.schedules.get("a")
    assert (found.definition.body, found.definition.source) == (b"code", "code")
    assert found.paused_at is not None
    env.rsmq.schedules.add("a", every=60, queue="q", body="call", version=9)
    assert declare(env, "a", 9, body=b"code") is False


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("", {"every": 1}, MissingParameter),
        ("a b", {"every": 1}, InvalidFormat),
        ("a:tick", {"every": 1}, InvalidFormat),
        ("a", {}, InvalidFormat),
        ("a", {"every": 1, "cron": "@daily"}, InvalidFormat),
        ("a", {"every": 0.05}, InvalidValue),
        ("a", {"every": "5m"}, InvalidValue),
        ("a", {"every": 1, "timezone": "UTC"}, InvalidFormat),
        ("a", {"cron": "* * *"}, InvalidFormat),
        ("a", {"cron": "@daily", "timezone": "Mars"}, InvalidFormat),
        ("a", {"every": 1, "missed": "never"}, InvalidFormat),
        ("a", {"every": 1, "jitter": -1}, InvalidValue),
        ("a", {"every": 1, "jitter": 86_401}, InvalidValue),
        ("a", {"every": 1, "body": 5}, MessageNotString),
        ("a", {"every": 1, "body": "x" * 65_537}, InvalidValue),
        ("a", {"every": 1, "body": "[]", "tick_field": "t"}, InvalidFormat),
        ("a", {"every": 1, "body": "{}", "tick_field": ""}, InvalidFormat),
        ("a", {"every": 1, "queue": "a b"}, InvalidFormat),
        ("a", {"every": 1, "version": -1}, InvalidValue),
        ("a", {"every": 1, "unique_key": "x" * 129}, InvalidFormat),
        ("a", {"every": 1, "expires": 0}, InvalidValue),
        ("a", {"every": 1, "max_retries": -1}, InvalidValue),
        ("a", {"every": 1, "codec": "json"}, InvalidFormat),
    ],
)
@pytest.mark.refused
def test_invalid_arguments_are_refused(env, name, options, kind):
    before = env.state()
    with pytest.raises(kind) as info:
        env.rsmq.schedules.add(name, **{"queue": "q", **options})
    assert info.value.hint
    assert env.state() == before


def test_a_namespace_has_a_largest_number_of_schedules(env, monkeypatch):
    monkeypatch.setattr(operations, "MAX_SCHEDULES", 2)
    for name in ("a", "b", "a"):
        env.rsmq.schedules.add(name, every=60, queue="q")
    with refused(InvalidValue, "the number of schedules must be between 0 and 2"):
        env.rsmq.schedules.add("c", every=60, queue="q")
    assert sorted(stored(env)[1]) == ["a", "b"]


def test_a_binary_body_is_stored_as_base64_and_sent_unchanged(env, queue):
    body = bytes(range(256))
    env.rsmq.schedules.add("a", every=60, queue=queue, body=body, codec=BYTES)
    assert "body_base64" in json.loads(stored(env)[0]["a"])
    make_due(env, "a")
    fire(env)
    assert env.rsmq.receive_message(queue).raw == body


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "JSONDecodeError"),
        ("{}", "KeyError"),
        ('{"form": "x"}', "its form is 'x'"),
        (WITH_OPTIONS % '"unique_key": ""', "unique_key"),
        (WITH_OPTIONS % '"expires": 0', "expires must be between"),
        (WITH_OPTIONS % '"max_retries": 1.5', "max_retries"),
    ],
)
def test_a_definition_that_cannot_be_read_is_shown_and_keeps_its_tick(env, queue, text, reason):
    env.rsmq.schedules.add("a", every=60, queue=queue)
    tick = make_due(env, "a")
    env.raw.hset(f"{env.ns}:x:schedules", "a", text)

    assert reason in fire(env).failures["a"]
    found = env.rsmq.schedules.get("a")
    assert found.definition is None
    assert reason in found.failure
    assert stored(env)[0]["a:tick"] == str(tick)
    with pytest.raises(NotPossible, match="Add the schedule again"):
        env.rsmq.schedules.run_now("a")
    assert env.rsmq.schedules.add("a", every=60, queue=queue) is True
    assert env.rsmq.schedules.get("a").failure is None


def test_a_definition_of_a_newer_form_is_left_to_newer_processes(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue)
    make_due(env, "a")
    env.raw.hset(f"{env.ns}:x:schedules", "a", '{"form": 3}')
    before = stored(env)

    assert "newer version" in fire(env).unable["a"]
    assert fire(env).failures == {}
    assert declare(env, "a", 9) is False
    for call in (
        lambda: env.rsmq.schedules.add("a", every=60, queue=queue),
        lambda: env.rsmq.schedules.run_now("a"),
    ):
        with pytest.raises(NotPossible, match="update this one"):
            call()
    assert stored(env) == before
    assert "newer version" in env.rsmq.schedules.get("a").failure
    assert env.rsmq.schedules.remove("a")


def test_a_name_without_a_definition_is_removed_when_it_is_due(env):
    env.raw.zadd(f"{env.ns}:x:due", {"ghost": 1})

    assert fire(env).failures == {}
    assert stored(env) == ({}, {})


@pytest.mark.parametrize(
    ("option", "value", "limits"),
    [
        ("every", "5m", "between 0.1 and 9999999, not '5m'"),
        ("every", -1, "between 0.1 and 9999999, not -1"),
        ("jitter", -1, "between 0 and 86400, not -1"),
    ],
)
def test_error_names_the_range_of_a_duration(env, option, value, limits):
    with pytest.raises(InvalidValue, match=f"{option} must be {limits}"):
        env.rsmq.schedules.add("a", queue="q", **{"every": 1, option: value})


def test_jitter_delays_the_attempt_and_not_the_tick(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue, jitter=30)
    tick = make_due(env, "a")
    fire(env)

    assert env.rsmq.receive_message(queue).scheduled_at.timestamp() * 1000 == tick
    state, due = stored(env)
    assert state["a:tick"] == str(tick + 60_000)
    assert tick + 60_000 <= due["a"] <= tick + 90_000


def test_after_a_clock_was_set_back_a_resumed_schedule_repeats_no_tick(env, queue):
    schedules = env.rsmq.schedules
    schedules.add("a", every=60, queue=queue)
    last = make_due(env, "a") + 3_600_000
    env.raw.hset(f"{env.ns}:x:schedules", "a:last", f"{last} {last} -")
    schedules.pause("a")
    schedules.resume("a")

    assert stored(env)[1] == {"a": last + 60_000}


def test_a_tick_that_is_fired_while_its_times_are_changed_is_not_stored_again(env, queue):
    env.rsmq.schedules.add("a", every=60, queue=queue)
    make_due(env, "a")
    definition = make_definition(
        Namespace(env.ns), "a", {"every": 30, "queue": queue, "body": b"", "version": 0},
        codec=BYTES, realtime=False, source="call",
    )  # fmt: skip
    steps = store_definition(Namespace(env.ns), definition, keeps_version=True)
    read = env.rsmq.run(next(steps))
    assert len(fire(env).fired["a"]) == 1
    before = stored(env)
    put = steps.send(read)
    assert env.rsmq.run(put) == 0
    assert stored(env) == before


def test_schedules_that_a_process_cannot_compute_hide_no_others(env, queue):
    for number in range(SCHEDULES_PER_LOOK + 1):
        env.rsmq.schedules.add(f"u{number}", cron="* * * * *", timezone="Asia/Tokyo", queue=queue)
        text = env.raw.hget(f"{env.ns}:x:schedules", f"u{number}")
        env.raw.hset(f"{env.ns}:x:schedules", f"u{number}", text.replace(b"Tokyo", b"Mars"))
        make_due(env, f"u{number}", 60_000)
    env.rsmq.schedules.add("a", every=60, queue=queue)
    make_due(env, "a")

    found = fire(env)
    assert (list(found.fired), len(found.unable)) == (["a"], SCHEDULES_PER_LOOK + 1)
    assert not found.has_more
