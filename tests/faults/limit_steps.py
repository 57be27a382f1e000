"""Receives from queues with limits while the slot of their keys moves."""

from __future__ import annotations

from functools import partial

from tests.faults.slot_steps import Step

#: The ending of the key that scripts use without declaring it.
ENDING = ":x:running"


def prepare_limited(name, *, is_full):
    """Prepare a queue with two messages, of which one is in flight, and room for one or two."""

    def prepare(client, stored):
        client.create_queue(name)
        client.set_queue_limits(name, max_running=1 if is_full else 2)
        first, second = client.send_messages(name, ["first", "second"])
        assert client.receive_message(name, vt=900).id == first
        return {first, second}

    return prepare


def check_limited(name, *, is_full, ids, received, stored):
    """Check that a receive has obeyed the limit, and is counted."""
    running = set(stored.raw.zrange(f"{stored.ns}:{name}{ENDING}", 0, -1)) - {b":"}
    if is_full:
        assert not received
        assert len(running) == 1
    else:
        (message,) = received if isinstance(received, list) else [received]
        assert message.raw == b"second"
        assert running == {id.encode() for id in ids}


def make_step(call_name, call, *, is_full):
    name = f"l-{call_name}-{'full' if is_full else 'room'}"

    def check(ids, received, stored):
        check_limited(name, is_full=is_full, ids=ids, received=received, stored=stored)

    return Step(
        f"limits: {name}", prepare_limited(name, is_full=is_full), partial(call, name), check
    )


CALLS = {
    "one": lambda name, client, _: client.receive_message(name, vt=900),
    "many": lambda name, client, _: client.receive_messages(name, 5, vt=900),
}
STEPS = [
    make_step(name, call, is_full=is_full)
    for name, call in CALLS.items()
    for is_full in (True, False)
]
