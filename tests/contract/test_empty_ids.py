"""A message whose id is the empty text, which another program has stored, outlives all calls."""

import pytest


@pytest.fixture
def plant(env):
    def plant(queue):
        env.raw.zadd(f"{env.ns}:{queue}", {"": env.now_ms() + 60_000})
        env.raw.hset(f"{env.ns}:{queue}:Q", "", "body")

    for name in ("q", "other", "dead"):
        env.rsmq.create_queue(name)
        plant(name)
    return plant


CALLS = {
    "send": lambda rsmq, id: rsmq.send_message("q", "a"),
    "send with options": lambda rsmq, id: rsmq.send_message("q", "a", dedup_id="d", expires=9),
    "send to a group": lambda rsmq, id: rsmq.send_message("q", "a", group="g"),
    "send many": lambda rsmq, id: rsmq.send_messages("q", ["a"] * 3),
    "receive": lambda rsmq, id: rsmq.receive_message("q"),
    "pop": lambda rsmq, id: rsmq.pop_message("q"),
    "delete": lambda rsmq, id: rsmq.delete_message("q", id),
    "delete many": lambda rsmq, id: rsmq.delete_messages("q", [id]),
    "change": lambda rsmq, id: rsmq.change_message_visibility("q", id, 60),
    "release": lambda rsmq, id: rsmq.release_messages("q", [id]),
    "move": lambda rsmq, id: rsmq.move_messages("q", "other", [id]),
    "redrive": lambda rsmq, id: rsmq.redrive_messages("q", "other", [id]),
    "sweep": lambda rsmq, id: rsmq.sweep_dead_letters("q"),
    "sweep of expired": lambda rsmq, id: rsmq.sweep_expired("q"),
    "attributes": lambda rsmq, id: rsmq.set_queue_attributes("q", vt=5),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_message_with_an_empty_id_is_changed_by_no_call_for_others(env, plant, call):
    env.rsmq.set_dead_letter_policy("q", "dead", 1)
    id = env.rsmq.send_message("q", "a", max_retries=3)
    before = [env.raw.zscore(f"{env.ns}:{name}", "") for name in ("q", "other", "dead")]

    call(env.rsmq, id)

    for name, score in zip(("q", "other", "dead"), before, strict=True):
        assert env.raw.zscore(f"{env.ns}:{name}", "") == score
        assert env.raw.hget(f"{env.ns}:{name}:Q", "") == b"body"
