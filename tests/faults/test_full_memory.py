"""
A server at maxmemory: every call that changes nothing passes, and every call that frees memory.

Each script that contains a command for writing is in one of the tables below. A new one must be
added to one of them.
"""

from __future__ import annotations

import re

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ
from rsmq.explain.alerts.record_operations import change_record
from rsmq.migrate.operations import IncomingMessage, add_copies
from rsmq.operations.restore import RestoredMessage, restore_records
from rsmq.operations.scripts import load, script_names
from rsmq.push.operations import fan_out
from rsmq.push.subscribers import Subscribers
from rsmq.worker import Worker
from tests.servers import Server, redis_7, redis_62

FEATURES = dict(script_names())
#: The commands for which a script needs the right to write.
WRITES = re.compile(rb"'(SADD|SREM|[HZL]?SET(NX)?|[HZ]INCRBY|ZADD|[HZL]REM|HDEL|UNLINK|DEL"
                    rb"|P?EXPIRE|PERSIST|PUBLISH|[LR]PUSH|LTRIM|XADD)'")  # fmt: skip
WRITING = {name for name, feature in FEATURES.items() if WRITES.search(load(name, feature).source)}

H, Z = "rsmq:q:Q", "rsmq:q"
DEAD = ["rsmq:dead:Q", "rsmq:dead"]
INDEX, LEASES, ACKED = "rsmq:QUEUES", "rsmq:q:x:leases", "rsmq:x:acked"
SUBSCRIBERS = "rsmq:x:subscribers"
SCHEDULES = ["rsmq:x:schedules", "rsmq:x:due"]
HELD, WORKERS, COPIED = "rsmq:x:held:w", "rsmq:x:workers", "rsmq:q:x:copied"
REFUSED = "command not allowed when used memory"
NO_ID = "i" * 32
NO_RECEIPT = [1, 1, NO_ID]
#: The keys of groups.
GROUPS = ["rsmq:q:x:admitted", "rsmq:q:x:held_back", "rsmq:q:x:group_of"]

#: A message that is in the queue: its id, its body, and its score, count and time.
ROW = ["{id}", "m", "", "", ""]

#: The keys and the arguments of calls that change nothing when they are made again. ``{id}`` is the
#: id of the message in queue q, ``{empty}`` is an empty queue.
UNCHANGING = {
    "add_copies": ([H, Z, COPIED, H], ["", 99_000, "", "", "", "", "digest", *ROW, ""]),
    "add_subscriber":
        ([SUBSCRIBERS, H, *DEAD, INDEX, "rsmq:x:push"],
         ["q", "a", "dead", '{"url":""}', "", 9, 9, "field"]),
    "change_message_visibility": ([H, Z], [NO_ID, "", 5]),
    "change_messages_visibility": ([H, Z], [5, *NO_RECEIPT]),
    "change_alert_record": (["rsmq:x:alerts"], ["step", "", ""]),
    "change_push_target": (["rsmq:x:push"], ["target", "state", "state"]),
    "begin_attempt": ([H, Z, "rsmq:q:x:job:" + NO_ID], [NO_ID, 1, "m", "w"]),
    "cancel_job": ([H, Z, "rsmq:q:x:job:" + NO_ID], [99_000, NO_ID]),
    "cancel_flow": (["rsmq:x:flow:" + "f" * 22], [99_000]),
    "check_flow": (["rsmq:x:flow:" + "f" * 22, "rsmq:x:due"], [60_000, 9, 99_000]),
    "read_flow": (["rsmq:x:flow:" + "f" * 22], ["", "all", 9]),
    "list_flows": (["rsmq:x:flow:all"], ["", 9]),
    "claim_key": ([H, "rsmq:q:x:dedup"], ["http:key", "digest", 99_000, "key"]),
    "count_unbegun": ([H, Z], [NO_ID]),
    "claim_unused_bodies": (["rsmq:x:unused_bodies"], [1, "name"]),
    "create_queue": ([H, Z, INDEX], ["q", 30, 0, 65_536]),
    "dead_letter_origins": ([H, Z], ["", 0, 9]),
    "dead_letter_messages":
        ([HELD, *DEAD, "rsmq:dead:x:reasons", H, Z], ["token", "q", 9, 9, "", NO_ID, 1, "{}"]),
    "decide_write": (["rsmq:x:written"], ["write", 1, b"\x90", 99_000]),
    "delete_expired_leases": ([LEASES], []),
    "delete_selected": ([H, Z], ["", NO_ID, "", ""]),
    "move_selected": ([*DEAD, H, Z], ["", NO_ID, "", ""]),
    "read_queues": ([H, Z], ["attributes backlog hidden next", 2, "rsmq:", 60_000, 10, 10]),
    "read_queue_state": ([H, Z], [10, WORKERS]),
    "release_selected": ([H, Z], ["", NO_ID, "", ""]),
    "delete_message": ([H, Z], [NO_ID, ""]),
    "delete_messages": ([H, Z], NO_RECEIPT),
    "delete_queue": (["rsmq:no:Q", "rsmq:no", INDEX, "rsmq:no:x"], ["no"]),
    "divide_milliseconds": ([H], [1, 2, "", 3, 4]),
    "examine_group_records": ([H, Z, *GROUPS], ["0"]),
    "examine_ungrouped": (GROUPS, [NO_ID]),
    "examine_groups": ([H, Z, *GROUPS[:2]], [""]),
    "examine_rights": ([H, Z, INDEX, "rsmq:nothing"], ["q"]),
    "extend_leased": ([H, Z, LEASES], ["lease:1:0", 5, 99_000]),
    "fan_out": ([SUBSCRIBERS, INDEX, "{empty}:Q", "{empty}", *DEAD], ["", "rsmq", 9, 9, "dead"]),
    "find_in_queues":
        ([H, Z, "rsmq:q:x:unique", *GROUPS[:2], "rsmq:q:x:calls", "rsmq:q:x:job:" + NO_ID],
         ["no", "no"]),
    "find_states": ([H, Z], ["rsmq:", "{id}"]),
    "find_jobs": ([H, Z], [0, "rsmq:q:x:job:*", 9, "failed"]),
    "finish_messages":
        ([HELD, H, Z, *DEAD, H], ["token", "", "q", 1, 1, 99_000, NO_ID, "", "m", 1, "i" * 22, ""]),
    "fire_schedule":
        ([*SCHEDULES, H, Z, H, H, H], ["no", "definition", 1, 1, 2, 2, 0, "", "", "", ""]),
    "forget_copies": ([H, COPIED], ["", "", "field"]),
    "forget_dead_worker": ([WORKERS, HELD], ["w", "other", 0]),
    "forget_set_aside": (["rsmq:x:aside"], [NO_ID]),
    "forward_messages": ([H, Z, "rsmq:list"], ["list", NO_ID, 1, "m", 0]),
    "get_message": ([H, Z], ["{id}"]),
    "get_messages": ([H, Z], [9, "{id}"]),
    "lease_messages":
        (["{empty}:Q", "{empty}", LEASES, ACKED],
         ["lease", 1, 0, 9, 9, 9, "", 99_000, "rsmq", "", "", "query", "holder", "1"]),
    "lock_keys": (["{empty}:Q", "{empty}", "rsmq:q:x:locks"], []),
    "move_from_list": ([H, Z, COPIED, H, "rsmq:list"], ["queue", "", "", "", "", 9, "left"]),
    "move_from_queue": ([H, Z, COPIED, H, *DEAD, "rsmq:x:copies"], ["queue", "", "", "", "", 9]),
    "move_from_sorted_set": ([H, Z, COPIED, H, "rsmq:zset"], ["queue", "", "", "", "", 9]),
    "move_messages": ([*DEAD, H, Z], NO_RECEIPT),
    "new_messages": ([H, Z], ["-inf", 0, "+inf", 0, 9]),
    "open_copy": ([H, COPIED], [99_000, "field", "digest"]),
    "pause_queue": ([H], ["1"]),
    "pause_schedule": (SCHEDULES, ["no", "", 0, 0]),
    "peek_messages": ([H, Z], ["", 0, "", 0, 9, 9]),
    "persist_keys": ([H, Z], []),
    "pop_message": (["{empty}:Q", "{empty}"], ["rsmq"]),
    "pop_messages": (["{empty}:Q", "{empty}"], [9, 9, "rsmq", "1"]),
    "postpone_schedule": (SCHEDULES, ["no", "definition", 1, 9, "1 reason"]),
    "publish_staged": ([H, Z, "rsmq:q:x:staged", H, H, H, H], ["part", ""]),
    "purge_queue": (["{empty}:Q", "{empty}", "{empty}:x"], []),
    "put_schedule": (SCHEDULES, ["no", "other", "definition", 1, 1, "", 9, ""]),
    "read_message_state": ([H, Z], [NO_ID, "rsmq", WORKERS, "rsmq:x:held:", "q"]),
    "read_reasons": ([H, Z], ["", "", 9]),
    "read_jobs": ([H, Z, "rsmq:q:x:job:" + NO_ID], [99_000, NO_ID]),
    "read_task": ([H, Z, "rsmq:q:x:job:" + NO_ID], [NO_ID]),
    "receive_for_worker": ([HELD, "{empty}:Q", "{empty}"], ["token", 1, 9, 9, 1, 1, 1, "q"]),
    "receive_message": (["{empty}:Q", "{empty}"], ["", "rsmq"]),
    "order_worker": ([WORKERS, HELD], ["no", "stop", "", 9]),
    "note_attempt": ([H, Z, "rsmq:q:x:job:" + NO_ID], [NO_ID, 1]),
    "receive_messages": (["{empty}:Q", "{empty}"], [9, 9, "", "rsmq", "1"]),
    "record_finished": ([H, Z, "rsmq:q:x:finished"], [NO_ID, 1, ""]),
    "record_quarantine_run": (["rsmq:q:x:alone"], [NO_ID, 1, 99_000]),
    "recover_messages": ([H, Z], [0, "", 9, "rsmq", NO_ID, 1]),
    "redrive_messages": (["{empty}:Q", "{empty}", H, Z], ["", "", 9]),
    "empty_trash": (["rsmq:x:trash"], []),
    "read_trash": (["rsmq:x:trash"], []),
    "release_key": ([H, "rsmq:q:x:dedup"], ["http:key", "digest", "key"]),
    "release_lease": ([LEASES], ["lease", "other"]),
    "release_leased": ([H, Z, LEASES, ACKED], ["lease", 1, 0, "query", "holder", ""]),
    "release_messages": ([H, Z], [*NO_RECEIPT, ""]),
    "remove_subscriber": ([SUBSCRIBERS, *DEAD, INDEX, "rsmq:dead:x"], ["q/a", "dead", "drop"]),
    "remove_schedule": (SCHEDULES, ["no"]),
    "remove_extensions": ([H, Z, "rsmq:q:x:no"], []),
    "remove_ghost_ids": ([H, Z], [NO_ID, "1"]),
    "remove_orphan_fields": ([H, Z], [1, NO_ID]),
    "repair_fields": ([H, Z], ["vt", "=1", "=2"]),
    "repair_listing": ([H, Z, INDEX], ["q", 0, 30, 0, 65_536]),
    "repair_scores": ([Z], [NO_ID, 1, 2]),
    "remove_wrong_keys": (["rsmq:q:x:held_back"], ["zset"]),
    "repair_turns": ([Z, "rsmq:q:x:rates", "rsmq:q:x:held_back"], []),
    "replace_ids": ([H, Z], []),
    "replace_lock": (["rsmq:x:lock"], ["other", "run", 99_000]),
    "restore_messages": ([H, Z], [1, "", 0, 0, *ROW]),
    "restore_records": ([H, Z], [0, 2, NO_ID, "1:"]),
    "restore_orphan_bodies": ([H, Z], [NO_ID, ""]),
    "restore_totals": ([H], [0, 0, ""]),
    "unlock_keys": (["rsmq:q:x:locks"], [NO_ID, 1, "key"]),
    "search_messages": ([H, Z], ["", "", 0, "", 0, 9, 9, 9, 9]),
    "settle_leased": ([H, Z], ["", NO_ID, 1]),
    "settle_messages": ([HELD, H, Z], ["token", "extend", "", "q", 1, 1, NO_ID, 5]),
    "stage_messages":
        ([H, "rsmq:q:x:staged", "rsmq:x:written"], ["write:1:0:0", 1, "", 99_000, "", b"\x90"]),
    "store_errors": ([H, Z, "rsmq:q:x:job:" + NO_ID], [NO_ID, 1, ""]),
    "sweep_dead_letters": ([H, Z], ["-inf", 0, 9, "rsmq"]),
    "sweep_expired": ([H, Z], ["-inf", 0, 9, "rsmq"]),
    "sweep_groups": ([H, Z, *GROUPS], ["", 9]),
    "sweep_groups_in_turn": ([H, Z, *GROUPS], [""]),
}  # fmt: skip

#: Calls that must pass so that consumers can receive and delete: they renew what is stored.
RENEWING = {
    "acknowledge_leased": ([H, Z, LEASES, ACKED], ["lease", 1, 0, 99_000, "query", "", ""]),
    "acquire_lease": ([H, LEASES], ["lease", "holder", 99_000, 99_000]),
    "finish_write": (["rsmq:x:written"], ["write", 1, 99_000]),
    "keep_acknowledged": ([ACKED], ["query", 99_000]),
    "register_worker": ([WORKERS, HELD], ["w", "token", "", 9, 99_000, "{}"]),
    "send_heartbeat": ([WORKERS, HELD], ["w", "token", 9, 99_000, "{}"]),
    "take_over_lease": ([ACKED], ["query", "holder", 99_000]),
    "take_permits": (["rsmq:x:rate:q"], [9, 99_000, 9]),
    "unregister_worker": ([WORKERS, HELD], ["w", "token"]),
}

#: Scripts whose every call stores something more, or stores the time of a change.
STORING = {
    "claim_minute",
    "begin_operation",
    "change_operation",
    "store_selection",
    "store_sqs_queue",
    "purge_to_trash",
    "delete_queue_to_trash",
    "delete_messages_to_trash",
    "note_unused_bodies",
    "undo_purge",
    "undo_delete_queue",
    "undo_step",
    "record_calls",
    "record_minute",
    "start_map",
    "send_flow",
    "begin_move",
    "begin_send",
    "finish_send",
    "publish",
    "send_each",
    "send_message",
    "send_messages",
    "send_to_group",
    "send_to_groups",
    "send_with_options",
    "set_dead_letter_policy",
    "set_queue_attributes",
    "set_queue_limits",
}


@pytest.fixture(scope="module", params=[redis_7, redis_62])
def server(request):
    options = () if request.param is redis_62 else ("--enable-debug-command", "yes")
    server = Server(request.param(), *options)
    yield server
    server.stop()


@pytest.fixture
def raw(server):
    with server.raw() as raw:
        raw.config_set("maxmemory", 0)
        raw.flushall()
        yield raw
        raw.config_set("maxmemory", 0)


@pytest.fixture
def rsmq(server, raw):
    with RSMQ.from_url(server.url) as rsmq:
        for name in ("q", "dead", "empty"):
            rsmq.create_queue(name)
        yield rsmq


def fill(raw):
    """Let the server refuse all that needs memory."""
    raw.config_set("maxmemory", 1)


def call(raw, name, keys, args, id):
    texts = {"{id}": id, "{empty}": "rsmq:empty", "{empty}:Q": "rsmq:empty:Q"}
    keys = [texts.get(key, key) for key in keys]
    args = [texts.get(arg, arg) for arg in args]
    return raw.eval(load(name, FEATURES[name]).source, len(keys), *keys, *args)


def test_every_script_that_writes_is_in_a_table():
    assert UNCHANGING.keys() | RENEWING.keys() | STORING == WRITING


@pytest.mark.parametrize("name", UNCHANGING)
def test_a_call_that_changes_nothing_passes_when_memory_is_full(raw, rsmq, name):
    id = rsmq.send_message("q", "m")
    rsmq.receive_message("q")
    if name == "publish_staged":
        raw.hset("rsmq:q:x:staged", "part", "")
    if name == "stage_messages":
        call(raw, "decide_write", *UNCHANGING["decide_write"], id)
    if name == "change_push_target":
        raw.hset("rsmq:x:push", "target", "state")
    if name == "claim_key":  # the message that it is repeated for
        created = raw.hget(H, "created").decode()
        raw.hset("rsmq:q:x:dedup", "key", f"{10**15}:{created}:{id}")
        raw.hset(H, "x:named", 1)
    call(raw, name, *UNCHANGING[name], id)
    before = raw.execute_command("DEBUG", "DIGEST")
    fill(raw)

    call(raw, name, *UNCHANGING[name], id)

    assert raw.execute_command("DEBUG", "DIGEST") == before


@pytest.mark.parametrize("name", RENEWING)
def test_a_call_that_renews_passes_when_memory_is_full(raw, rsmq, name):
    call(raw, "register_worker", *RENEWING["register_worker"], NO_ID)
    if name != "unregister_worker":
        call(raw, name, *RENEWING[name], NO_ID)
    fill(raw)

    call(raw, name, *RENEWING[name], NO_ID)


def test_a_queue_that_is_new_is_refused_when_memory_is_full(raw, rsmq):
    fill(raw)

    with pytest.raises(redis_errors.ResponseError, match=REFUSED):
        rsmq.create_queue("new")
    assert raw.smembers(INDEX) == {b"q", b"dead", b"empty"}
    assert rsmq.create_queue("q", exist_ok=True) is False


def test_alerts_are_announced_when_memory_is_full(raw, rsmq):
    fill(raw)

    changes = [("alert:memory:", b"", b"{}"), ("message:1:1:ops", b"", b"{}")]
    assert rsmq.run(change_record(rsmq.namespace, changes))[0]
    assert raw.hgetall("rsmq:x:alerts") == {b"alert:memory:": b"{}", b"message:1:1:ops": b"{}"}


def test_a_queue_is_resumed_when_memory_is_full(raw, rsmq):
    rsmq.pause_queue("q")
    fill(raw)

    assert rsmq.resume_queue("q") is True
    assert raw.hexists(H, "x:paused") is False
    assert rsmq.resume_queue("q") is False


def test_messages_wait_for_subscribers_when_memory_is_full_and_a_subscriber_can_be_removed(
    raw, rsmq
):
    subscribers = Subscribers(rsmq)
    subscribers.add("q", "a", "https://example.org/")
    subscribers.add("q", "b", "https://example.org/")
    version = raw.hget(SUBSCRIBERS, "")
    rsmq.send_message("q", "m")
    rsmq.send_message("q-b", "m")
    before = raw.execute_command("DEBUG", "DIGEST")
    fill(raw)

    with pytest.raises(redis_errors.ResponseError, match=REFUSED):
        rsmq.run(fan_out(rsmq.namespace, "q", ["q-a", "q-b"], version))
    assert raw.execute_command("DEBUG", "DIGEST") == before
    assert subscribers.remove("q", "a", drop=True)
    assert subscribers.remove("q", "b")
    assert set(raw.hkeys(SUBSCRIBERS)) == {b"", b"q/b"}
    assert b"removed" in raw.hget(SUBSCRIBERS, "q/b")


def test_a_schedule_can_be_paused_and_removed_when_memory_is_full(raw, rsmq):
    rsmq.schedules.add("a", every=60, queue="q")
    fill(raw)

    with pytest.raises(redis_errors.ResponseError, match=REFUSED):
        rsmq.schedules.add("b", every=60, queue="q")
    assert rsmq.schedules.pause("a")
    assert rsmq.schedules.resume("a")
    assert rsmq.schedules.remove("a")
    assert not raw.exists(*SCHEDULES)


def test_a_send_with_a_dedup_id_of_a_stored_message_passes_when_memory_is_full(raw, rsmq):
    id = rsmq.send_message("q", "m", dedup_id="one")
    fill(raw)

    assert rsmq.send_message("q", "m", dedup_id="one") == id
    with pytest.raises(redis_errors.ResponseError, match=REFUSED):
        rsmq.send_message("q", "m", dedup_id="two")


def test_a_send_with_the_unique_key_of_a_stored_message_passes_when_memory_is_full(raw, rsmq):
    id = rsmq.send_message("q", "m", unique_key="one")
    fill(raw)

    assert rsmq.send_message("q", "m", unique_key="one") == id
    for options in ({"unique_key": "two"}, {"unique_key": "one", "replace": True}):
        with pytest.raises(redis_errors.ResponseError, match=REFUSED):
            rsmq.send_message("q", "m", **options)


def test_a_worker_that_creates_its_queues_drains_them_when_memory_is_full(raw, rsmq):
    rsmq.send_messages("q", ["m"] * 9)
    worker = Worker(rsmq, grace=5)
    handled = []
    worker.listener("q", create=True, max_retries=2, dead_letter_queue="dead")(handled.append)
    fill(raw)

    worker.run(until_empty=True)

    assert handled == ["m"] * 9
    assert raw.zcard("rsmq:q") == 0


@pytest.mark.parametrize("name", ["add_copies", "restore_records"])
def test_limits_of_messages_of_another_queue_are_refused_when_memory_is_full(raw, rsmq, name):
    """The removal of old limits lets Redis accept what follows, so the refusal comes before it."""
    id = rsmq.send_message("q", "m")
    limits = "rsmq:q:x:limits"
    message = IncomingMessage(b"d", RestoredMessage(NO_ID, b"m", 1, 0, None, {"limits": b"1:"}))
    keys = rsmq.namespace.queue("q")
    operation = {
        "add_copies": add_copies(keys, [message], realtime=False, lifetime=9),
        "restore_records": restore_records(keys, {id: {"limits": b"1:"}}),
    }[name]
    before = raw.execute_command("DEBUG", "DIGEST")
    fill(raw)

    with pytest.raises(redis_errors.ResponseError, match=REFUSED):
        rsmq.run(operation)
    assert raw.execute_command("DEBUG", "DIGEST") == before
    raw.config_set("maxmemory", 0)
    rsmq.run(operation)
    assert raw.hvals(limits) == [b"1:"]
