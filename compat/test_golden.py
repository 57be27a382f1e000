"""
The recordings in golden/: keys that real clients wrote, read and written again by this library.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime

import pytest

from compat import matrix, recordings
from compat.peers import Ours, Refused
from rsmq import BYTES

DEVIATIONS = json.loads((recordings.FOLDER / "deviations.json").read_text())

#: A hash is a queue only if it has all of these fields.
ATTRIBUTES = {"vt", "delay", "maxsize"}

#: Sessions that this library repeats completely, without a difference.
CONFORMANT = [name for name in recordings.names() if not matrix.DIFFERENCES[name]]
#: Sessions whose results are also equal; in earlier versions sent was in whole milliseconds.
EXACT = ["rsmq-0.11.0", "rsmq-0.12.4"]


class Database:
    """Database 9 of the server, with the namespace of the recordings."""

    def __init__(self, server):
        self.raw = server.raw(db=9)
        self.port = server.port
        self.url = server.url.removesuffix("/0") + "/9"
        self.ours = Ours(self, "rsmq")

    def restore(self, state, shift_ms=0):
        self.raw.flushdb()
        recordings.restore(self.raw, state, shift_ms)

    def now(self):
        return list(self.raw.time())

    def call(self, step):
        """Return our result of a recorded call, in the form of the recordings."""
        op, args = step["call"]["op"], step["call"]["args"]
        realtime = {"realtime": True} if step["call"].get("realtime") else {}
        try:
            return {"result": getattr(self.ours, to_snake_case(op))(**args, **realtime)}
        except Refused as refused:
            return {"error": {"name": refused.name, "message": refused.text}}

    def close(self):
        self.raw.flushdb()
        self.ours.close()
        self.raw.close()


@pytest.fixture
def database(server):
    database = Database(server)
    yield database
    database.close()


def to_snake_case(op):
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", op)


def to_ms(time):
    return time[0] * 1000 + time[1] // 1000


def recorded_calls(name):
    """Yield the calls of a recorded session: step, keyspace before it, keyspace after it."""
    before = {}
    for step in recordings.load(name)["steps"]:
        after = step.get("state", before)
        if step["call"]["op"] not in ("connect", "quit") and not step.get("unsupported"):
            yield step, before, after
        before = after


def test_recorded_steps_and_ours_make_the_same_changes(recording, database, request):
    differences = {}
    for step, before, after in recorded_calls(recording):
        op = step["call"]["op"]
        matrix.record_proof(request, recording, op, "recorded")
        database.restore(before, shift_ms=to_ms(database.now()) - to_ms(step["t0"]))
        state_before, t0 = recordings.read(database.raw), database.now()
        database.call(step)
        t1, state_after = database.now(), recordings.read(database.raw)
        recorded_change = recordings.change(before, after, step["t0"], step["t1"])
        our_change = recordings.change(state_before, state_after, t0, t1)
        if recorded_change != our_change:
            differences.setdefault(op, []).append(step["name"])

    expected_steps = {op: entry["steps"] for op, entry in matrix.DIFFERENCES[recording].items()}
    assert expected_steps == differences


@pytest.mark.parametrize("name", CONFORMANT)
def test_repeated_session_makes_the_same_changes_at_every_step(name, database):
    """From an empty database; ids are matched by the order of their sends."""
    database.raw.flushdb()
    ids, previous_t0, spent_ms = {}, None, 0
    for step, before, after in recorded_calls(name):
        if previous_t0 is not None:
            # Let the same time pass as in the recording, by moving the scores.
            _advance_time(database, to_ms(step["t0"]) - to_ms(previous_t0) - spent_ms)
        state_before, t0 = recordings.read(database.raw), database.now()
        args = {key: ids.get(value, value) for key, value in step["call"]["args"].items()}
        reply = database.call({**step, "call": {**step["call"], "args": args}})
        t1, state_after = database.now(), recordings.read(database.raw)
        if step["call"]["op"] == "sendMessage" and "result" in step:
            ids[step["result"]] = reply["result"]
        recorded_change = recordings.change(before, after, step["t0"], step["t1"])
        our_change = recordings.change(state_before, state_after, t0, t1)
        previous_t0, spent_ms = step["t0"], to_ms(database.now()) - to_ms(t0)

        assert _replace_ids(recorded_change, ids) == our_change, step["name"]
        if name in EXACT:
            assert _normalize(_replace_ids(step, ids)) == _normalize({**step, **reply}), step[
                "name"
            ]


def _advance_time(database, milliseconds):
    for key in database.raw.keys("rsmq:*"):
        if database.raw.type(key) == b"zset":
            for id, score in database.raw.zrange(key, 0, -1, withscores=True):
                database.raw.zadd(key, {id: score - milliseconds})
        elif database.raw.type(key) == b"hash":
            for field in ("created", "modified"):  # so that a new time differs
                database.raw.hincrby(key, field, -10)


def _replace_ids(value, ids):
    text = json.dumps(value, default=repr)
    for recorded_change, our_change in ids.items():
        text = text.replace(recorded_change, our_change)
    return json.loads(text)


#: Values that depend on the clock, and hiddenmsgs, which this library counts to the millisecond.
_TIMES = {"fr": None, "sent": None, "created": None, "modified": None, "hiddenmsgs": None}


def _normalize(step):
    """Return the result of a step, with Node's 1, {} and ids converted, without clock readings."""
    result, op = step.get("result"), step["call"]["op"]
    if "error" in step:
        return step["error"]["name"], step["error"]["message"]
    if op == "deleteQueue":
        return None
    if op == "listQueues":
        return sorted(result)
    if isinstance(result, dict):
        return {**result, **{key: None for key in _TIMES if key in result}} or None
    return bool(result) if result in (0, 1) else result


def test_reference_is_among_the_repeated_sessions():
    assert set(EXACT) <= set(CONFORMANT)
    assert {"rsmq-0.8.3", "rsmq-0.8.5", "rsmq-0.10.0"} <= set(CONFORMANT)


@pytest.mark.parametrize("name", CONFORMANT)
def test_recorded_notifications_are_published_equally(name, database):
    steps = [(s, before) for s, before, _ in recorded_calls(name) if s["call"].get("realtime")]
    assert len(steps) == 1
    step, before = steps[0]
    database.restore(before)
    with database.raw.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.psubscribe("rsmq:*")
        subscription.get_message(timeout=5)
        database.call(step)
        published = []
        while message := subscription.get_message(timeout=0.1):
            published.append(
                {"channel": message["channel"].decode(), "payload": message["data"].decode()}
            )

    # Node publishes since 0.9.
    assert published == (step.get("published") or [{"channel": "rsmq:rt:gold", "payload": "3"}])


def test_recorded_keyspaces_are_read_correctly(recording, database):
    """list_queues, get_queue_attributes and get_message, compared with the data itself."""
    for step, _, state in recorded_calls(recording):
        shift = to_ms(database.now()) - to_ms(step["t1"])
        database.restore(state, shift)  # messages that were hidden then are hidden now
        client = database.ours.client()
        listed_queues = state.get("rsmq:QUEUES", {"value": []})["value"]

        assert listed_queues == client.list_queues()
        for key in [key for key in state if key.endswith(":Q")]:
            qname = key.removeprefix("rsmq:").removesuffix(":Q")
            fields = state[key]["value"]
            members = state.get(f"rsmq:{qname}", {"value": []})["value"]
            if not fields.keys() >= ATTRIBUTES:
                with pytest.raises(Exception, match="Queue not found"):
                    client.get_queue_attributes(qname)
                continue
            due = {id: float(score) + shift for id, score in members}
            now = to_ms(database.now())
            _assert_attributes(fields, due, now, client.get_queue_attributes(qname))
            for id, score in due.items():
                _assert_message(id, score, now, fields, client.get_message(qname, id, codec=BYTES))
        assert recordings.read(database.raw).keys() == state.keys(), step["name"]


def _assert_attributes(fields, due, now, actual):
    assert float(fields["vt"]) == actual.vt
    assert float(fields["delay"]) == actual.delay
    assert int(fields["maxsize"]) == actual.maxsize
    assert int(fields.get("totalsent", 0)) == actual.total_sent
    assert int(fields.get("totalrecv", 0)) == actual.total_received
    assert _parse_time(fields["created"]) == actual.created
    assert _parse_time(fields["modified"]) == actual.modified
    assert len(due) == actual.messages
    hidden = sorted(score for score in due.values() if score > now)
    assert len(hidden) == actual.hidden_messages
    assert len(due) - len(hidden) == actual.visible_messages
    assert (hidden[0] if hidden else None) == actual.next_due_ms


def _parse_time(stored):
    if not stored.isdecimal():
        return None
    seconds = int(stored) / (1000 if len(stored) > 11 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _assert_message(id, score, now, fields, actual):
    assert _bytes(fields[id]) == actual.raw
    assert int(fields.get(f"{id}:rc", 0)) == actual.receive_count
    first = fields.get(f"{id}:fr")
    assert (None if first is None else float(first)) == actual.first_received_ms
    assert score == actual.visible_at_ms
    received = int(fields.get(f"{id}:rc", 0)) > 0
    hidden = "in_flight" if received else "delayed"
    assert (hidden if score > now else "visible") == actual.state
    last = score - float(fields["vt"]) * 1000 if received else None
    assert last == actual.last_received_ms


def _bytes(value):
    return value if isinstance(value, bytes) else value.encode()


def test_recorded_messages_are_received_and_popped_in_order(recording, database):
    """Each keyspace with all its messages due is received and popped in the order of the set."""
    for _, _, state in recorded_calls(recording):
        for key in [key for key in state if state[key]["type"] == "zset"]:
            fields = state.get(f"{key}:Q", {"value": {}})["value"]
            if not fields.keys() >= ATTRIBUTES:
                continue  # not a queue: incomplete, or the remains of one
            qname, ids = key.removeprefix("rsmq:"), [id for id, _ in state[key]["value"]]
            due = {**state, key: {"type": "zset", "value": [[i, n] for n, i in enumerate(ids)]}}
            for method_name in ("receive_message", "pop_message"):
                database.restore(due)
                client = database.ours.client()
                messages = [getattr(client, method_name)(qname, codec=BYTES) for _ in ids]

                assert ids == [message.id for message in messages]
                for message in messages:
                    count = int(fields.get(f"{message.id}:rc", 0))
                    assert _bytes(fields[message.id]) == message.raw
                    assert count + 1 == message.receive_count
                    if count and f"{message.id}:fr" in fields:
                        assert float(fields[f"{message.id}:fr"]) == message.first_received_ms
                assert getattr(client, method_name)(qname) is None


def test_sent_times_in_recorded_ids_are_parsed(recording, database):
    """The time is within the step that sent it, for ids that contain a time."""
    for step, before, after in recorded_calls(recording):
        if step["call"]["op"] != "sendMessage" or "error" in step:
            continue
        database.restore(after)
        for key, entry in after.items():
            if entry["type"] != "zset" or not after[f"{key}:Q"]["value"].keys() >= ATTRIBUTES:
                continue
            old = {id for id, _ in before.get(key, {"value": []})["value"]}
            for id in {id for id, _ in entry["value"]} - old:
                actual = database.ours.client().get_message(key.removeprefix("rsmq:"), id)
                if recording.startswith(("ebuckley", "rsmq-rb", "pyrsmq-0.1")):
                    assert actual.sent_ms is None
                else:
                    # rsmq_async 7 to 15 truncate the time to the second.
                    truncation_ms = 1000 if re.match(r"rsmq_async-(7|9|11)", recording) else 0
                    assert (
                        to_ms(step["t0"]) - truncation_ms
                        <= actual.sent_ms
                        <= math.ceil(to_ms(step["t1"]) + 1)
                    )


def test_foreign_state_is_handled_as_by_node_except_deviations(database):
    """Node's probes: invalid input, and the keys that other clients leave; then the same calls."""
    differing_results = {}
    for number, group in enumerate(recordings.load("rsmq-0.12.4.probes")["groups"]):
        database.raw.flushdb()
        for command in group.get("setup") or ():
            database.raw.execute_command(*command)
        for step in group["steps"]:
            try:
                our_change = _normalize_probe(
                    {**step, **_add_missing_error(database.call(step), step)}
                )
            except Exception as error:  # noqa: BLE001 - redis-py's own errors, and BodyNotDecodable
                our_change = type(error).__name__
            if _normalize_probe(step) != our_change:
                differing_results[f"{number} {step['name']}"] = our_change

    assert sorted(DEVIATIONS) == sorted(differing_results)


def _add_missing_error(reply, step):
    return {"result": None, "error": None, **reply} if "error" in step else reply


def _normalize_probe(step):
    """Return a result without new ids and without times of the probe; other times are kept."""
    reply = step.get("error") or step.get("result")
    if step.get("error"):
        return reply["name"], reply["message"]
    op = step["call"]["op"]
    if op == "sendMessage":
        return "id"
    if op == "deleteQueue":
        return None
    if isinstance(reply, dict):
        now = ("fr", "sent") if reply.get("id", "ho") > "hoc" else ("fr",)
        state_after = {"id": None} if reply.get("id", "ho") > "hoc" else {}
        times = {key: None for key in now if (reply.get(key) or 0) > 1.79e12}
        return {**reply, **state_after, **times} or None
    return bool(reply) if reply in (0, 1) else reply
