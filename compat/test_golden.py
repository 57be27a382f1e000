"""The recordings of golden/: what real clients wrote, read and done again by this library."""

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

#: A queue is one only with all of these.
ATTRIBUTES = {"vt", "delay", "maxsize"}

#: Sessions that our client repeats whole, without one difference.
CONFORMANT = [name for name in recordings.names() if not matrix.DIFFERENCES[name]]
#: Those whose answers are ours too; before, sent was in whole milliseconds.
EXACT = ["rsmq-0.11.0", "rsmq-0.12.4"]


class Database:
    """Database 9 of the server, with the namespace of the recordings."""

    def __init__(self, server):
        self.raw = server.raw(db=9)
        self.port = server.port
        self.url = server.url.removesuffix("/0") + "/9"
        self.ours = Ours(self, "rsmq")

    def restored(self, state, shift_ms=0):
        self.raw.flushdb()
        recordings.restore(self.raw, state, shift_ms)

    def now(self):
        return list(self.raw.time())

    def call(self, step):
        """Our answer to a recorded call, as recordings have answers."""
        op, args = step["call"]["op"], step["call"]["args"]
        realtime = {"realtime": True} if step["call"].get("realtime") else {}
        try:
            return {"result": getattr(self.ours, snake(op))(**args, **realtime)}
        except Refused as refused:
            return {"error": {"name": refused.name, "message": refused.text}}

    def close(self):
        self.raw.flushdb()
        self.ours.close()
        self.raw.close()


@pytest.fixture
def database(server):
    opened = Database(server)
    yield opened
    opened.close()


def snake(op):
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", op)


def ms(time):
    return time[0] * 1000 + time[1] // 1000


def calls(name):
    """The calls of a recorded session: step, keyspace before it, keyspace after it."""
    before = {}
    for step in recordings.load(name)["steps"]:
        after = step.get("state", before)
        if step["call"]["op"] not in ("connect", "quit") and not step.get("unsupported"):
            yield step, before, after
        before = after


def test_every_recorded_step_changes_what_ours_changes(recording, database, request):
    differences = {}
    for step, before, after in calls(recording):
        op = step["call"]["op"]
        matrix.cell(request, recording, op, "recorded")
        database.restored(before, shift_ms=ms(database.now()) - ms(step["t0"]))
        loaded, t0 = recordings.read(database.raw), database.now()
        database.call(step)
        t1, made = database.now(), recordings.read(database.raw)
        theirs = recordings.change(before, after, step["t0"], step["t1"])
        ours = recordings.change(loaded, made, t0, t1)
        if theirs != ours:
            differences.setdefault(op, []).append(step["name"])

    known = {op: entry["steps"] for op, entry in matrix.DIFFERENCES[recording].items()}
    assert known == differences


@pytest.mark.parametrize("name", CONFORMANT)
def test_a_whole_session_done_again_changes_the_same_at_every_step(name, database):
    """From an empty database on; ids are told apart by the order in which they were sent."""
    database.raw.flushdb()
    ids, passed, spent = {}, None, 0
    for step, before, after in calls(name):
        if passed is not None:
            # As long as it took in the recording, by moving the scores.
            _elapse(database, ms(step["t0"]) - ms(passed) - spent)
        loaded, t0 = recordings.read(database.raw), database.now()
        args = {key: ids.get(value, value) for key, value in step["call"]["args"].items()}
        answer = database.call({**step, "call": {**step["call"], "args": args}})
        t1, made = database.now(), recordings.read(database.raw)
        if step["call"]["op"] == "sendMessage" and "result" in step:
            ids[step["result"]] = answer["result"]
        theirs = recordings.change(before, after, step["t0"], step["t1"])
        ours = recordings.change(loaded, made, t0, t1)
        passed, spent = step["t0"], ms(database.now()) - ms(t0)

        assert _renamed(theirs, ids) == ours, step["name"]
        if name in EXACT:
            assert _answer(_renamed(step, ids)) == _answer({**step, **answer}), step["name"]


def _elapse(database, milliseconds):
    for key in database.raw.keys("rsmq:*"):
        if database.raw.type(key) == b"zset":
            for id, score in database.raw.zrange(key, 0, -1, withscores=True):
                database.raw.zadd(key, {id: score - milliseconds})
        elif database.raw.type(key) == b"hash":
            for field in ("created", "modified"):  # so that a new one is another one
                database.raw.hincrby(key, field, -10)


def _renamed(value, ids):
    text = json.dumps(value, default=repr)
    for theirs, ours in ids.items():
        text = text.replace(theirs, ours)
    return json.loads(text)


#: What depends on the clock, and hiddenmsgs, which ours counts to the millisecond.
_TIMES = {"fr": None, "sent": None, "created": None, "modified": None, "hiddenmsgs": None}


def _answer(step):
    """The answer of a step: Node's 1, {} and ids as ours, clock readings left out."""
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


def test_the_reference_is_among_the_sessions_done_again():
    assert set(EXACT) <= set(CONFORMANT)
    assert {"rsmq-0.8.3", "rsmq-0.8.5", "rsmq-0.10.0"} <= set(CONFORMANT)


@pytest.mark.parametrize("name", CONFORMANT)
def test_a_recorded_notification_is_published_alike(name, database):
    steps = [(s, before) for s, before, _ in calls(name) if s["call"].get("realtime")]
    assert len(steps) == 1
    step, before = steps[0]
    database.restored(before)
    with database.raw.pubsub(ignore_subscribe_messages=True) as subscription:
        subscription.psubscribe("rsmq:*")
        subscription.get_message(timeout=5)
        database.call(step)
        heard = []
        while message := subscription.get_message(timeout=0.1):
            heard.append(
                {"channel": message["channel"].decode(), "payload": message["data"].decode()}
            )

    # Node publishes since 0.9.
    assert heard == (step.get("published") or [{"channel": "rsmq:rt:gold", "payload": "3"}])


def test_every_recorded_keyspace_is_read_rightly(recording, database):
    """list_queues, get_queue_attributes and get_message, against a plain reading of the data."""
    for step, _, state in calls(recording):
        shift = ms(database.now()) - ms(step["t1"])
        database.restored(state, shift)  # what was hidden then is hidden now
        client = database.ours.client()
        listed = state.get("rsmq:QUEUES", {"value": []})["value"]

        assert listed == client.list_queues()
        for key in [key for key in state if key.endswith(":Q")]:
            qname = key.removeprefix("rsmq:").removesuffix(":Q")
            fields = state[key]["value"]
            members = state.get(f"rsmq:{qname}", {"value": []})["value"]
            if not fields.keys() >= ATTRIBUTES:
                with pytest.raises(Exception, match="Queue not found"):
                    client.get_queue_attributes(qname)
                continue
            due = {id: float(score) + shift for id, score in members}
            now = ms(database.now())
            _attributes_are(fields, due, now, client.get_queue_attributes(qname))
            for id, score in due.items():
                _message_is(id, score, now, fields, client.get_message(qname, id, codec=BYTES))
        assert recordings.read(database.raw).keys() == state.keys(), step["name"]


def _attributes_are(fields, due, now, read):
    assert float(fields["vt"]) == read.vt
    assert float(fields["delay"]) == read.delay
    assert int(fields["maxsize"]) == read.maxsize
    assert int(fields.get("totalsent", 0)) == read.total_sent
    assert int(fields.get("totalrecv", 0)) == read.total_received
    assert _moment(fields["created"]) == read.created
    assert _moment(fields["modified"]) == read.modified
    assert len(due) == read.messages
    hidden = sorted(score for score in due.values() if score > now)
    assert len(hidden) == read.hidden_messages
    assert len(due) - len(hidden) == read.visible_messages
    assert (hidden[0] if hidden else None) == read.next_due_ms


def _moment(stored):
    if not stored.isdecimal():
        return None
    seconds = int(stored) / (1000 if len(stored) > 11 else 1)
    return datetime.fromtimestamp(seconds, UTC)


def _message_is(id, score, now, fields, read):
    assert _bytes(fields[id]) == read.raw
    assert int(fields.get(f"{id}:rc", 0)) == read.receive_count
    first = fields.get(f"{id}:fr")
    assert (None if first is None else float(first)) == read.first_received_ms
    assert score == read.visible_at_ms
    received = int(fields.get(f"{id}:rc", 0)) > 0
    hidden = "in_flight" if received else "delayed"
    assert (hidden if score > now else "visible") == read.state
    last = score - float(fields["vt"]) * 1000 if received else None
    assert last == read.last_received_ms


def _bytes(value):
    return value if isinstance(value, bytes) else value.encode()


def test_every_recorded_message_is_delivered_in_order(recording, database):
    """Received and popped: each keyspace with all its messages due, in the order of the set."""
    for _, _, state in calls(recording):
        for key in [key for key in state if state[key]["type"] == "zset"]:
            fields = state.get(f"{key}:Q", {"value": {}})["value"]
            if not fields.keys() >= ATTRIBUTES:
                continue  # no queue: what is left of one, or half of one
            qname, ids = key.removeprefix("rsmq:"), [id for id, _ in state[key]["value"]]
            due = {**state, key: {"type": "zset", "value": [[i, n] for n, i in enumerate(ids)]}}
            for take in ("receive_message", "pop_message"):
                database.restored(due)
                client = database.ours.client()
                taken = [getattr(client, take)(qname, codec=BYTES) for _ in ids]

                assert ids == [message.id for message in taken]
                for message in taken:
                    count = int(fields.get(f"{message.id}:rc", 0))
                    assert _bytes(fields[message.id]) == message.raw
                    assert count + 1 == message.receive_count
                    if count and f"{message.id}:fr" in fields:
                        assert float(fields[f"{message.id}:fr"]) == message.first_received_ms
                assert getattr(client, take)(qname) is None


def test_ids_of_every_client_tell_when_the_message_was_sent_or_nothing(recording, database):
    """Within the step that sent it, for ids that hold a time."""
    for step, before, after in calls(recording):
        if step["call"]["op"] != "sendMessage" or "error" in step:
            continue
        database.restored(after)
        for key, entry in after.items():
            if entry["type"] != "zset" or not after[f"{key}:Q"]["value"].keys() >= ATTRIBUTES:
                continue
            old = {id for id, _ in before.get(key, {"value": []})["value"]}
            for id in {id for id, _ in entry["value"]} - old:
                read = database.ours.client().get_message(key.removeprefix("rsmq:"), id)
                if recording.startswith(("ebuckley", "rsmq-rb", "pyrsmq-0.1")):
                    assert read.sent_ms is None
                else:
                    # rsmq_async 7 to 15 cut the time to the second.
                    cut = 1000 if re.match(r"rsmq_async-(7|9|11)", recording) else 0
                    assert ms(step["t0"]) - cut <= read.sent_ms <= math.ceil(ms(step["t1"]) + 1)


def test_foreign_state_is_met_as_node_meets_it_but_for_the_deviations(database):
    """Node's probes: bad input, and the keys that other clients leave; then the same calls."""
    found = {}
    for number, group in enumerate(recordings.load("rsmq-0.12.4.probes")["groups"]):
        database.raw.flushdb()
        for command in group.get("setup") or ():
            database.raw.execute_command(*command)
        for step in group["steps"]:
            try:
                ours = _probed({**step, **_without_answer(database.call(step), step)})
            except Exception as error:  # noqa: BLE001 - redis-py's own, and BodyNotDecodable
                ours = type(error).__name__
            if _probed(step) != ours:
                found[f"{number} {step['name']}"] = ours

    assert sorted(DEVIATIONS) == sorted(found)


def _without_answer(answer, step):
    return {"result": None, "error": None, **answer} if "error" in step else answer


def _probed(step):
    """An answer without ids that were made and times of the probe; other times stay."""
    answer = step.get("error") or step.get("result")
    if step.get("error"):
        return answer["name"], answer["message"]
    op = step["call"]["op"]
    if op == "sendMessage":
        return "id"
    if op == "deleteQueue":
        return None
    if isinstance(answer, dict):
        now = ("fr", "sent") if answer.get("id", "ho") > "hoc" else ("fr",)
        made = {"id": None} if answer.get("id", "ho") > "hoc" else {}
        times = {key: None for key in now if (answer.get(key) or 0) > 1.79e12}
        return {**answer, **made, **times} or None
    return bool(answer) if answer in (0, 1) else answer
