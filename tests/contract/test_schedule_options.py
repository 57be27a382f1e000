"""The messages of a schedule have the options of a send, with the same keys."""

from __future__ import annotations

import pytest

from rsmq import InvalidCombination
from rsmq.schedules.operations import fire_due_schedules
from rsmq.vocabulary.sends import SCHEDULE, SEND_OPTIONS
from rsmq.wire.ids import GROUP_MARK
from rsmq.wire.keys import Namespace
from tests.contract.test_schedules import make_due
from tests.contract.test_send_options import OPTIONS

everywhere = pytest.mark.parametrize("backend", ["redis", "http", "memory"])

REFUSED = {each.name for each in SEND_OPTIONS} - SCHEDULE.options.keys()


def keys_of(env, queue):
    """Return the types of the keys of a queue by name, without its own two."""
    prefix = f"{env.ns}:{queue}:x:"
    return {
        key.decode().removeprefix(prefix).partition(":")[0]: env.raw.type(key)
        for key in env.raw.keys(f"{prefix}*")
    }


@everywhere
@pytest.mark.parametrize("name", SCHEDULE.options)
def test_a_tick_is_sent_with_each_option(env, name):
    options = OPTIONS[name]
    for queue in ("ticks", "sends"):
        env.rsmq.create_queue(queue)
    env.rsmq.schedules.add("a", every=60, queue="ticks", body="m", **options)
    tick = make_due(env, "a")
    (id,) = env.rsmq.run_steps(fire_due_schedules(Namespace(env.ns))).fired["a"]
    sent = env.rsmq.send_message("sends", "m", **options)

    message = env.rsmq.get_message("ticks", id)
    assert (message.body, round(message.scheduled_at.timestamp() * 1000)) == ("m", tick)
    if env.raw.hexists(f"{env.ns}:sends:x:group_of", sent):  # other ids may end so by chance
        assert id.endswith(GROUP_MARK.decode())
        assert sent.endswith(GROUP_MARK.decode())
    assert keys_of(env, "ticks") == keys_of(env, "sends")
    scores = [env.scores(queue)[each] for queue, each in (("ticks", id), ("sends", sent))]
    delays = [
        score - int(each[:10], 36) // 1000 for score, each in zip(scores, (id, sent), strict=True)
    ]
    assert delays[0] == delays[1] or (name == "front" and max(delays) < 0)
    definition = env.rsmq.schedules.get("a").definition
    assert definition.options == options
    assert env.rsmq.schedules.add("a", every=60, queue="ticks", body="m", **options) is False


@pytest.mark.parametrize("backend", ["redis", "memory"])
def test_a_schedule_refuses_what_it_cannot_have(env):
    assert {"deliver_at", "dedup_id", "dedup_window"} == REFUSED
    for name in REFUSED:
        with pytest.raises(TypeError, match=f"schedules.add.* {name!r}"):
            env.rsmq.schedules.add("a", every=60, queue="q", **{name: OPTIONS[name][name]})
    with pytest.raises(InvalidCombination, match="limit_key"):
        env.rsmq.schedules.add("a", every=60, queue="q", max_running=1)


@everywhere
def test_later_ticks_replace_the_message_that_waits(env):
    env.rsmq.create_queue("q")
    options = {"unique_key": "k", "replace": True, "missed": "all"}
    env.rsmq.schedules.add("a", every=60, queue="q", body="m", **options)
    make_due(env, "a", ago_ms=180_000)
    (id,) = env.rsmq.run_steps(fire_due_schedules(Namespace(env.ns))).fired["a"]
    make_due(env, "a")
    result = env.rsmq.run_steps(fire_due_schedules(Namespace(env.ns)))
    assert (result.fired, result.joined) == ({"a": []}, {"a": id})
    assert list(env.scores("q")) == [id]
