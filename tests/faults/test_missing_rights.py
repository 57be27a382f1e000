"""
A call of a user without the right to one of its commands: no message is lost, duplicated or hidden.

Totals and receive counts may be higher afterwards. To undo that, or to check every command before
the first change, would make each call of users with all rights more expensive.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ
from rsmq.errors import NotPossible
from rsmq.push.operations import fan_out
from rsmq.push.subscribers import Subscribers
from rsmq.schedules.operations import fire_schedule, plan_due, read_due_schedules

MAY_NOT = "can't run this command"

_numbers = itertools.count()

#: The commands that scripts call.
COMMANDS = (
    "HDEL", "HEXISTS", "HGET", "HGETALL", "HINCRBY", "HLEN", "HMGET", "HRANDFIELD", "HSCAN", "HSET",
    "HSETNX", "PERSIST", "PEXPIRE", "PTTL", "PUBLISH", "RENAMENX", "SADD", "SCAN", "SMEMBERS",
    "SREM", "TIME", "UNLINK", "ZADD", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE", "ZREM",
    "ZSCORE",
)  # fmt: skip

QUEUES = ("q", "dead", "poisoned", "paused", "large", "old")
OLD_ID = "g0000000001234567890123456789ABC"
ID_LENGTH = 32


def fire(rsmq, held, due, **options):
    now_ms, _, [found] = rsmq.run(read_due_schedules(rsmq.namespace))
    definition, plan = plan_due(found, now_ms)
    rsmq.run(fire_schedule(rsmq.namespace, replace(definition, options=options), found, plan))


#: ``held`` are two messages in flight in queue q. Another consumer received the second one again.
#: ``due`` are the ids of two visible messages.
CALLS = {
    "create_queue": lambda rsmq, held, due: rsmq.create_queue("new"),
    "delete_queue": lambda rsmq, held, due: rsmq.delete_queue("q"),
    "set_queue_attributes": lambda rsmq, held, due: rsmq.set_queue_attributes("q", vt=5, delay=1),
    "set_queue_limits":
        lambda rsmq, held, due: rsmq.set_queue_limits("q", max_running=1, rate="1/s"),
    "set_queue_limits, none": lambda rsmq, held, due: rsmq.set_queue_limits("large"),
    "receive_message, limits": lambda rsmq, held, due: rsmq.receive_message("large"),
    "pause_queue": lambda rsmq, held, due: rsmq.pause_queue("q"),
    "resume_queue": lambda rsmq, held, due: rsmq.resume_queue("paused"),
    "purge_queue": lambda rsmq, held, due: rsmq.purge_queue("q"),
    "send_message": lambda rsmq, held, due: rsmq.send_message("q", "m"),
    "send_message, large total": lambda rsmq, held, due: rsmq.send_message("large", "m"),
    "send_message, dedup_id": lambda rsmq, held, due: rsmq.send_message("q", "m", dedup_id="one"),
    "send_message, unique_key":
        lambda rsmq, held, due: rsmq.send_message("q", "m", unique_key="one"),
    "send_message, max_retries":
        lambda rsmq, held, due: rsmq.send_message("q", "m", max_retries=9),
    "send_message, expires": lambda rsmq, held, due: rsmq.send_message("q", "m", expires=9),
    "send_message, replace":
        lambda rsmq, held, due: rsmq.send_message("q", "m", unique_key="held", replace=True),
    "send_message, track": lambda rsmq, held, due: rsmq.send_message("q", "m", track=True),
    "cancel": lambda rsmq, held, due: rsmq.job("q", due[0]).cancel(),
    "cancel, in flight": lambda rsmq, held, due: rsmq.job("q", held[0].id).cancel(),
    "jobs": lambda rsmq, held, due: rsmq.jobs("q"),
    "send_message, front": lambda rsmq, held, due: rsmq.send_message("q", "m", front=True),
    "send_messages": lambda rsmq, held, due: rsmq.send_messages("q", ["m", "n"]),
    "publish, expires": lambda rsmq, held, due: rsmq.publish(["q", "dead"], "m", expires=9),
    "publish": lambda rsmq, held, due: rsmq.publish(["q", "dead"], "m"),
    "receive_message": lambda rsmq, held, due: rsmq.receive_message("q"),
    "receive_message, policy": lambda rsmq, held, due: rsmq.receive_message("poisoned"),
    "receive_messages": lambda rsmq, held, due: rsmq.receive_messages(["q", "poisoned"], 3),
    "pop_message": lambda rsmq, held, due: rsmq.pop_message("q"),
    "pop_message, policy": lambda rsmq, held, due: rsmq.pop_message("poisoned"),
    "pop_messages": lambda rsmq, held, due: rsmq.pop_messages(["q", "poisoned"], 3),
    "delete_message": lambda rsmq, held, due: rsmq.delete_message("q", due[0]),
    "delete_message, receipt": lambda rsmq, held, due: rsmq.delete_message(held[0]),
    "delete_messages": lambda rsmq, held, due: rsmq.delete_messages("q", due),
    "delete_messages, receipts": lambda rsmq, held, due: rsmq.delete_messages(held),
    "change_message_visibility":
        lambda rsmq, held, due: rsmq.change_message_visibility("q", due[0], 9),
    "change_message_visibility, receipt":
        lambda rsmq, held, due: rsmq.change_message_visibility(held[0], 9),
    "change_messages_visibility":
        lambda rsmq, held, due: rsmq.change_messages_visibility("q", due, 9),
    "change_messages_visibility, receipts":
        lambda rsmq, held, due: rsmq.change_messages_visibility(held, 9),
    "release_messages": lambda rsmq, held, due: rsmq.release_messages("q", [held[0].id, due[0]]),
    "release_messages, receipts": lambda rsmq, held, due: rsmq.release_messages(held),
    "release_all_messages": lambda rsmq, held, due: rsmq.release_all_messages("q"),
    "recover_messages": lambda rsmq, held, due: rsmq.recover_messages("q", 9, idle=0),
    "set_dead_letter_policy":
        lambda rsmq, held, due: rsmq.set_dead_letter_policy("q", "dead", 5),
    "set_dead_letter_policy, none":
        lambda rsmq, held, due: rsmq.set_dead_letter_policy("poisoned", None),
    "sweep_dead_letters": lambda rsmq, held, due: rsmq.sweep_dead_letters("poisoned"),
    "set_queue_attributes, keep":
        lambda rsmq, held, due: rsmq.set_queue_attributes("old", keep=0, expired="drop"),
    "sweep_expired": lambda rsmq, held, due: rsmq.sweep_expired("old"),
    "receive_message, expired": lambda rsmq, held, due: rsmq.receive_message("old"),
    "pop_messages, expired": lambda rsmq, held, due: rsmq.pop_messages("old", 3),
    "redrive_messages": lambda rsmq, held, due: rsmq.redrive_messages("dead", "q"),
    "move_messages": lambda rsmq, held, due: rsmq.move_messages("q", "dead", due),
    "fan_out": lambda rsmq, held, due:
        rsmq.run(fan_out(rsmq.namespace, "q", ["dead", "large", "paused"], b"1")),
    "add subscriber":
        lambda rsmq, held, due: Subscribers(rsmq).add("q", "a", "https://example.org/"),
    "remove subscriber": lambda rsmq, held, due: Subscribers(rsmq).remove("poisoned", "x"),
    "drop subscriber": lambda rsmq, held, due: Subscribers(rsmq).remove("q", "x", drop=True),
    "fire schedule": fire,
    "fire schedule, options":
        lambda rsmq, held, due: fire(rsmq, held, due, unique_key="one", expires=9, max_retries=1),
    "fire schedule, joined": lambda rsmq, held, due: fire(rsmq, held, due, unique_key="held"),
    "purge, undo": lambda rsmq, held, due: rsmq.trash.purge_queue("q"),
    "delete_queue, undo": lambda rsmq, held, due: rsmq.trash.delete_queue("q"),
    "delete_messages, undo": lambda rsmq, held, due: rsmq.trash.delete_messages("q", due),
    "undo": lambda rsmq, held, due: rsmq.trash.undo(rsmq.trash.list()[0].id),
    "add schedule": lambda rsmq, held, due: rsmq.schedules.add("new", every=60, queue="q"),
    "change schedule": lambda rsmq, held, due: rsmq.schedules.add("s", every=9, queue="q"),
    "run schedule": lambda rsmq, held, due: rsmq.schedules.run_now("s"),
    "pause schedule": lambda rsmq, held, due: rsmq.schedules.pause("s"),
    "resume schedule": lambda rsmq, held, due: rsmq.schedules.resume("asleep"),
    "remove schedule": lambda rsmq, held, due: rsmq.schedules.remove("s"),
    "move_messages, receipts": lambda rsmq, held, due: rsmq.move_messages(held, "dead"),
}  # fmt: skip


def prepare(raw, ns):
    """Create queues with messages, and return the arguments ``held`` and ``due`` of CALLS."""
    with RSMQ(raw, ns=ns) as rsmq:
        for name in QUEUES:
            rsmq.create_queue(name)
        rsmq.set_dead_letter_policy("poisoned", "dead", 1)
        rsmq.set_dead_letter_policy("old", "dead", 9)
        rsmq.set_queue_attributes("old", keep=60, expired="dead-letter")
        raw.hset(f"{ns}:old:Q", OLD_ID, "m")
        raw.zadd(f"{ns}:old", {OLD_ID: 1})
        rsmq.send_message("dead", "dead letter")
        rsmq.send_message("poisoned", "poison")
        rsmq.change_message_visibility(rsmq.receive_message("poisoned"), 0)
        rsmq.send_message("poisoned", "well")
        rsmq.pause_queue("paused")
        rsmq.set_queue_limits("large", max_running=2, rate="1000/s")
        rsmq.send_message("large", "m")
        raw.hset(f"{ns}:large:Q", "totalsent", 10**15)
        record = {"": "1", "q/x": '{"created":1,"url":""}', "poisoned/x": '{"created":1,"url":""}'}
        raw.hset(f"{ns}:x:subscribers", mapping=record)
        for name in ("s", "asleep"):
            rsmq.schedules.add(name, every=60, queue="q")
        rsmq.schedules.pause("asleep")
        raw.hset(f"{ns}:x:schedules", "s:tick", 60_000)
        raw.zadd(f"{ns}:x:due", {"s": 60_000})
        rsmq.send_message("q", "deleted")
        rsmq.trash.purge_queue("q")
        rsmq.send_messages("q", ["1", "2", "3", "4"])
        held = rsmq.receive_messages("q", 2)
        raw.hincrby(f"{ns}:q:Q", f"{held[1].id}:rc", 1)  # as another receive does
        due = [message.id for message in rsmq.peek_messages("q")][:2]
        rsmq.send_message("q", "earlier", dedup_id="another", unique_key="held")
        assert not {message.id for message in held} & set(due)
        return held, due


def stored_messages(raw, ns):
    """
    Return the ids of each queue with their scores, and with their bodies, and the next ticks.
    """
    fields = raw.hgetall(f"{ns}:x:schedules")
    ticks = {name: tick for name, tick in fields.items() if b":" not in name or b":tick" in name}
    return {"ticks": (raw.zrange(f"{ns}:x:due", 0, -1, withscores=True), ticks)} | {
        name: (
            raw.zrange(f"{ns}:{name}", 0, -1, withscores=True),
            {
                id: body
                for id, body in raw.hgetall(f"{ns}:{name}:Q").items()
                if len(id) == ID_LENGTH
            },
        )
        for name in QUEUES
    }


def used_commands(raw, url, call):
    """Return the commands of a call, also those of its scripts: only these can be refused."""
    ns = f"rights{next(_numbers)}"
    held, due = prepare(raw, ns)
    with RSMQ.from_url(url, ns=ns) as rsmq:
        raw.config_resetstat()
        CALLS[call](rsmq, held, due)
    used = [name.removeprefix("cmdstat_").upper() for name in raw.info("commandstats")]
    raw.unlink(*raw.keys(f"{ns}:*"))
    return [command for command in COMMANDS if command in used]


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_changes_no_message(server, call):
    changed_by, refused = [], 0
    with server.raw() as raw:
        for command in used_commands(raw, server.url, call):
            ns = f"rights{next(_numbers)}"
            held, due = prepare(raw, ns)
            raw.execute_command(
                "ACL", "SETUSER", ns, "on", ">p", f"~{ns}:*", "&*", "+@all", f"-{command}"
            )
            before = stored_messages(raw, ns)
            url = f"redis://{ns}:p@127.0.0.1:{server.port}/0"
            with RSMQ.from_url(url, ns=ns) as rsmq:
                try:
                    CALLS[call](rsmq, held, due)
                except (redis_errors.ResponseError, NotPossible) as error:
                    if MAY_NOT not in str(error) and "may not rename" not in str(error):
                        raise
                    refused += 1
                    if stored_messages(raw, ns) != before:
                        changed_by.append(command)
            raw.execute_command("ACL", "DELUSER", ns)
            raw.unlink(*raw.keys(f"{ns}:*"))

    assert (changed_by, refused > 1) == ([], True)
