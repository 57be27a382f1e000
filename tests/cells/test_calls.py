"""The calls of a set of cells, by the raw keys of each cell."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from redis.exceptions import ResponseError

from rsmq import (
    BYTES,
    CellsMismatch,
    ClientClosed,
    Confirm,
    InvalidFormat,
    InvalidValue,
    NotReplicated,
    PartlyDone,
    QueueExists,
    QueueNotFound,
)
from rsmq._sync.membership import RECHECK_SECONDS
from rsmq.wire.cells import cell_of_key, join_id


def cell_of(id):
    return int(id.partition("-")[0])


def test_queues_exist_in_each_cell(place, cells):
    assert all(place.raw.smembers(f"{place.cell(index)}:QUEUES") == {b"q"} for index in range(6))
    assert all(place.raw.hget(f"{place.cell(index)}:q:Q", "vt") == b"30" for index in range(6))
    assert cells.list_queues() == ["q"]
    with pytest.raises(QueueExists):
        cells.create_queue("q")
    assert cells.create_queue("q", exist_ok=True) is False


def test_creating_and_deleting_complete_an_interrupted_call(place, cells):
    place.raw.delete(f"{place.cell(4)}:q:Q")
    with pytest.raises(PartlyDone, match=r"not in 4 of 6") as caught:
        cells.get_queue_attributes("q")
    assert caught.value.cells == (4,)
    assert len(caught.value.result) == 5
    assert caught.value.errors[4].startswith("QueueNotFound: ")
    assert cells.create_queue("q", vt=5) is True
    assert place.raw.hget(f"{place.cell(4)}:q:Q", "vt") == b"5"
    place.raw.delete(f"{place.cell(2)}:q:Q")
    cells.delete_queue("q")
    assert not place.raw.keys(f"{{{place.ns}.*:q:Q")
    with pytest.raises(QueueNotFound):
        cells.delete_queue("q")


def test_attributes_are_set_and_added(place, cells):
    cells.send_messages("q", ["a", "b"])
    cells.send_message("q", "c", delay=60)
    assert cells.set_queue_attributes("q", vt=7, maxsize=2000).vt == 7
    assert {place.raw.hget(f"{place.cell(i)}:q:Q", "vt") for i in range(6)} == {b"7"}
    found = cells.get_queue_attributes("q")
    assert (found.messages, found.visible_messages, found.hidden_messages) == (3, 2, 1)
    assert (found.total_sent, found.total_received, found.maxsize) == (3, 0, 2000)
    assert found.next_due_ms > found.created.timestamp() * 1000 + 59_000
    counts = cells.count_messages("q")
    assert (counts.visible, counts.in_flight, counts.delayed) == (2, 0, 1)
    assert cells.pause_queue("q")
    assert cells.get_queue_attributes("q").paused
    assert not cells.pause_queue("q")
    assert cells.resume_queue("q")
    assert cells.purge_queue("q") == 3
    assert place.bodies("q") == [{}] * 6


def test_sends_go_to_the_cells_in_turn(place, cells):
    ids = [cells.send_message("q", str(number)) for number in range(12)]
    assert sorted(Counter(map(cell_of, ids)).values()) == [2] * 6
    stored = place.bodies("q")
    for number, id in enumerate(ids):
        cell, _, stored_id = id.partition("-")
        assert stored[int(cell)][stored_id] == str(number).encode()


def test_batches_and_publishes_go_to_one_cell(place, cells):
    cells.create_queue("other")
    ids = cells.send_messages("q", ["a", "b", "c"])
    assert len(set(map(cell_of, ids))) == 1
    assert list(place.bodies("q")[cell_of(ids[0])].values()) == [b"a", b"b", b"c"]
    published = cells.publish(["q", "other"], "p", key="k")
    assert {cell_of(id) for id in published.values()} == {cell_of_key("k", 6)}
    assert list(published) == ["q", "other"]
    assert cells.send_messages("q", []) == []


def test_a_key_decides_the_cell(place, cells):
    for key in ("a", "b", "user-1", ""):
        ids = [cells.send_message("q", key, key=key) for _ in range(3)]
        ids += cells.send_messages("q", [key], key=key)
        assert {cell_of(id) for id in ids} == {cell_of_key(key, 6)}
    with pytest.raises(InvalidFormat, match="A key is a str"):
        cells.send_message("q", "x", key=7)


def test_deduplication_ids_choose_the_cell(place, cells):
    first = cells.send_message("q", "a", dedup_id="d1")
    assert cell_of(first) == cell_of_key("d1", 6)
    assert {cells.send_message("q", "again", dedup_id="d1") for _ in range(5)} == {first}
    other = next(key for key in map(str, range(99)) if cell_of_key(key, 6) != cell_of(first))
    elsewhere = cells.send_message("q", "b", dedup_id="d1", key=other)
    assert cell_of(elsewhere) == cell_of_key(other, 6)
    assert cells.send_message("q", "c", dedup_id="d1", key=other) == elsewhere
    assert sum(len(of_cell) for of_cell in place.bodies("q")) == 2


def test_batches_with_deduplication_ids_of_several_cells_are_refused(place, cells):
    by_cell = {cell_of_key(str(number), 6): str(number) for number in range(99)}
    with pytest.raises(InvalidFormat, match="Pass key="):
        cells.send_messages("q", ["a", "b"], dedup_ids=[by_cell[0], by_cell[1]])
    assert place.bodies("q") == [{}] * 6
    ids = cells.send_messages("q", ["a", "b"], dedup_ids=[by_cell[0], by_cell[1]], key="k")
    assert {cell_of(id) for id in ids} == {cell_of_key("k", 6)}
    assert cells.send_messages("q", ["x", "y"], dedup_ids=[by_cell[1], by_cell[0]], key="k") == [
        ids[1], ids[0],
    ]  # fmt: skip
    ids = cells.send_messages("q", ["c", "d"], dedup_ids=[by_cell[3], None])
    assert {cell_of(id) for id in ids} == {3}


def test_a_unique_key_is_unique_in_all_cells_and_chooses_the_cell(place, cells):
    first = cells.send_message("q", "a", unique_key="u1", dedup_id="d1")
    assert cell_of(first) == cell_of_key("u1", 6)
    for name in ("d2", "d3", None):
        assert cells.send_message("q", "b", unique_key="u1", dedup_id=name) == first
    replaced = cells.send_message("q", "c", unique_key="u1", replace=True, delay=5, max_wait=9)
    assert replaced == first
    assert place.bodies("q")[cell_of(first)] == {first.partition("-")[2]: b"c"}
    assert sum(len(of_cell) for of_cell in place.bodies("q")) == 1

    by_cell = {cell_of_key(str(number), 6): str(number) for number in range(99)}
    with pytest.raises(InvalidFormat, match="the cell of its unique_key"):
        cells.send_messages("q", ["a", "b"], unique_keys=[by_cell[0], by_cell[1]])
    # A message without a unique_key goes where its dedup_id does.
    with pytest.raises(InvalidFormat, match="Pass key="):
        labels = {"unique_keys": [by_cell[0], None], "dedup_ids": [None, by_cell[1]]}
        cells.send_messages("q", ["a", "b"], **labels)
    ids = cells.send_messages("q", ["a", "b"], unique_keys=[by_cell[0], by_cell[1]], key="k")
    assert {cell_of(id) for id in ids} == {cell_of_key("k", 6)}
    ids = cells.send_messages("q", ["c", "d"], unique_keys=(key for key in (by_cell[3], None)))
    assert {cell_of(id) for id in ids} == {3}


@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("dedup_id", [None, "d"])
def test_every_combination_of_a_send(place, cells, dedup_id, key, is_batch, replicas):
    """The server has no replica, so a confirmed send is stored, and raises with the ids."""
    options = {"key": key, "confirm": Confirm(replicas=replicas, timeout=0.01)}

    def send():
        try:
            if is_batch:
                dedup_ids = [dedup_id, None]
                return cells.send_messages("q", ["a", "b"], dedup_ids=dedup_ids, **options)
            return [cells.send_message("q", "a", dedup_id=dedup_id, **options)]
        except NotReplicated as error:
            assert replicas
            return error.result if is_batch else [error.result]

    first, second = send(), send()
    expected = key or dedup_id
    if expected is not None:
        assert {cell_of(id) for id in first + second} == {cell_of_key(expected, 6)}
    assert (first[0] == second[0]) == (dedup_id is not None)
    stored = {join_id(cell, id) for cell, ids in enumerate(place.bodies("q")) for id in ids}
    assert stored == {*first, *second}


def test_options_of_a_send_reach_the_cell(place, cells):
    later = datetime.now(UTC) + timedelta(hours=1)
    last = cells.send_message("q", b"last", key="k", codec=BYTES)
    first = cells.send_message("q", "first", key="k", front=True)
    cells.send_message("q", "late", key="k", deliver_at=later)
    cells.send_messages("q", ["slow"], key="k", delay=5)
    ids = [join_id(cell_of_key("k", 6), id) for id in place.bodies("q")[cell_of_key("k", 6)]]
    assert ids[:2] == [first, last]
    assert cells.count_messages("q").delayed == 2


def test_each_message_is_received_once_and_deleted(place, cells):
    sent = {cells.send_message("q", str(number)): str(number) for number in range(40)}
    found = cells.receive_messages("q", 25)
    found += [cells.receive_message("q") for _ in range(15)]
    assert cells.receive_message("q") is None
    assert {message.id: message.body for message in found} == sent
    assert all(message.receive_count == 1 for message in found)
    assert all(abs(message.sent_at - datetime.now(UTC)) < timedelta(minutes=1) for message in found)
    first_half, rest = found[:20], found[20:]
    assert sorted(cells.delete_messages(first_half)) == sorted(message.id for message in first_half)
    assert cells.delete_messages(first_half) == []
    assert all(cells.delete_message(message) for message in rest)
    assert not cells.delete_message(rest[0])
    assert place.bodies("q") == [{}] * 6
    assert cells.get_queue_attributes("q").total_received == 40


def test_order_of_a_key_is_exact(cells):
    keys = random.Random(1).choices("abcdefgh", k=200)
    for number, key in enumerate(keys):
        cells.send_message("q", f"{key}{number}", key=key)
    found = []
    while messages := cells.receive_messages("q", 7):
        found += [message.body for message in messages]
        cells.delete_messages(messages)
    for key in "abcdefgh":
        numbers = [int(body[1:]) for body in found if body[0] == key]
        assert numbers == [number for number, each in enumerate(keys) if each == key]


def test_queues_have_priority_within_a_cell(cells):
    cells.create_queue("urgent")
    for number in range(6):
        cells.send_message("q", f"q{number}", key="k")
        cells.send_message("urgent", f"u{number}", key="k")
    found = [message.body for message in cells.receive_messages(["urgent", "q"], 12)]
    assert found == [*(f"u{number}" for number in range(6)), *(f"q{number}" for number in range(6))]
    assert {message.queue for message in cells.receive_messages(["urgent", "q"], 5)} == set()


def test_visibility_and_release(place, cells):
    ids = [cells.send_message("q", str(number)) for number in range(12)]
    found = cells.receive_messages("q", 12)
    assert cells.change_message_visibility(found[0], 100)
    assert cells.change_message_visibility(found[1], vt=100)
    assert cells.change_message_visibility("q", found[2].id, 100)
    assert sorted(cells.change_messages_visibility(found[3:6], 100)) == sorted(
        message.id for message in found[3:6]
    )
    assert cells.change_messages_visibility("q", [found[6].id, "0-" + "x" * 32], vt=100) == [
        found[6].id
    ]
    assert cells.receive_messages("q", 12) == []
    assert sorted(cells.release_messages(found)) == sorted(ids)
    again = cells.receive_messages("q", 12)
    assert sorted(message.id for message in again) == sorted(ids)
    assert cells.release_messages(found) == []  # received again since
    assert cells.release_messages("q", [again[0].id]) == [again[0].id]
    assert cells.release_all_messages("q") == 11
    assert cells.count_messages("q").visible == 12


def test_bare_ids_are_looked_for_in_all_cells(place, cells):
    ids = [cells.send_message("q", str(number)) for number in range(6)]
    bare = [id.partition("-")[2] for id in ids]
    assert cells.get_message("q", bare[3]).id == ids[3]
    assert cells.get_message("q", ids[3]).body == "3"
    assert cells.get_message("q", "x" * 32) is None
    assert cells.delete_message("q", bare[0])
    assert not cells.delete_message("q", bare[0])
    assert sorted(cells.delete_messages("q", [bare[1], ids[2]])) == sorted([ids[1], ids[2]])
    assert cells.change_message_visibility("q", bare[3], 60)
    assert sorted(message.id for message in cells.receive_messages("q", 9)) == sorted(ids[4:])


def test_peeks_are_in_the_order_of_all_cells(place, cells):
    ids = [cells.send_message("q", str(number), delay=60 + number) for number in range(20)]
    assert [message.id for message in cells.peek_messages("q", 5, 10)] == ids[5:15]
    assert [message.id for message in cells.peek_messages("q", 18, 10, state="delayed")] == ids[18:]
    assert cells.peek_messages("q", state="visible") == []
    with pytest.raises(InvalidValue):
        cells.peek_messages("q", -1)
    with pytest.raises(InvalidValue):
        cells.peek_messages("q", 9_999, 2)


def test_pops_are_of_one_cell(place, cells):
    for number in range(12):
        cells.send_message("q", str(number))
    found = [cells.pop_message("q")]
    batch = cells.pop_messages("q", 10)
    assert len({message.cell for message in batch}) == 1
    while messages := cells.pop_messages("q", 10):
        batch += messages
    assert sorted(message.body for message in found + batch) == sorted(map(str, range(12)))
    assert cells.pop_message("q") is None
    assert place.bodies("q") == [{}] * 6


def test_dead_letters_stay_in_their_cell(place, cells):
    cells.create_queue("dead")
    attributes = cells.set_dead_letter_policy("q", "dead", 1)
    assert (attributes.dead_letter_queue, attributes.max_receives) == ("dead", 1)
    ids = [cells.send_message("q", str(number)) for number in range(12)]
    cells.receive_messages("q", 12, vt=0)
    assert len(cells.sweep_dead_letters("q", 5)) == 5
    assert cells.receive_messages("q", 12) == []
    for index, of_cell in enumerate(place.bodies("dead")):
        assert {join_id(index, id) for id in of_cell} == {id for id in ids if cell_of(id) == index}
    redriven = cells.redrive_messages("dead", max_messages=4)
    redriven += cells.redrive_messages("dead")
    assert sorted(old for old, _ in redriven) == sorted(ids)
    assert all(cell_of(old) == cell_of(new) for old, new in redriven)
    assert sum(map(len, place.bodies("q"))) == 12
    assert cells.sweep_dead_letters("q") == []


def test_given_dead_letters_return_to_their_queues_in_their_cells(place, cells):
    cells.create_queue("dead")
    cells.set_dead_letter_policy("q", "dead", 1)
    ids = [cells.send_message("dead", str(number)) for number in range(12)]

    redriven = cells.redrive_messages("dead", ids=[*ids[:3], ids[3].partition("-")[2]])
    assert sorted(old for old, _ in redriven) == sorted(ids[:4])
    peeked = cells.peek_messages("dead", 0, 4)
    redriven += cells.redrive_messages(peeked)
    redriven += cells.redrive_messages(cells.receive_messages("dead", 12))

    assert sorted(old for old, _ in redriven) == sorted(ids)
    assert all(cell_of(old) == cell_of(new) for old, new in redriven)
    assert place.bodies("dead") == [{}] * 6
    assert sum(map(len, place.bodies("q"))) == 12
    with pytest.raises(InvalidFormat):
        cells.redrive_messages(peeked, "q", ids)
    with pytest.raises(InvalidFormat):
        cells.redrive_messages(peeked, "q", max_messages=1)
    with pytest.raises(InvalidFormat):
        cells.redrive_messages(["id"], "q")


def test_moves_and_recovers_stay_in_their_cell(place, cells):
    cells.create_queue("other")
    ids = [cells.send_message("q", str(number)) for number in range(12)]
    found = cells.receive_messages("q", 12, vt=3000)
    assert sorted(cells.move_messages(found[:6], "other")) == sorted(m.id for m in found[:6])
    assert cells.move_messages("q", "other", [found[6].id]) == [found[6].id]
    assert {
        join_id(index, id) for index, of_cell in enumerate(place.bodies("other")) for id in of_cell
    } == {message.id for message in found[:7]}
    for index in range(6):
        for id in place.bodies("q")[index]:
            place.raw.zadd(f"{place.cell(index)}:q", {id: 1_000_000_000_000_000})
    assert cells.set_queue_attributes("q", vt=9_999_999)
    assert cells.recover_messages("q", 3, idle=9_000_000) == []
    assert len(ids) == 12


def test_consume_and_processing(place, cells):
    for number in range(10):
        cells.send_message("q", str(number))
    seen = []
    with cells.consume("q", batch=4, wait=0) as messages:
        for message in messages:
            with cells.processing(message):
                seen.append(message.body)
            if len(seen) == 7:
                break
    assert len(set(seen)) == 7
    assert cells.count_messages("q").visible == 3  # the prefetched ones are released
    message = cells.receive_message("q")
    with pytest.raises(ZeroDivisionError), cells.processing(message):
        raise ZeroDivisionError
    assert cells.count_messages("q").visible == 3
    with pytest.raises(InvalidFormat, match="received from these cells"):
        cells.processing("x")


def test_prefetched_messages_of_several_cells_are_all_consumed(cells):
    """A look at an empty cell does not end the leases of messages of other cells."""
    for number in range(7):
        cells.send_message("q", str(number), key="abcdefg"[number])
    cells.create_queue("r")
    cells.send_message("r", "r")
    with cells.consume(["r", "q"], batch=100, wait=0) as messages:
        found = [message.body for message in messages]
    assert sorted(found) == [*map(str, range(7)), "r"]


def test_a_closed_client_refuses_calls(place, cells):
    cells.close()
    for call in (
        lambda: cells.receive_message("q"),
        lambda: cells.receive_message("q", wait=1),
        lambda: cells.send_message("q", "x"),
        lambda: cells.count_messages("q"),
    ):
        with pytest.raises(ClientClosed):
            call()


def test_the_record_of_the_set(place, cells):
    records = [place.raw.hgetall(f"{place.cell(index)}:x:cell") for index in range(6)]
    assert len({record[b"set"] for record in records}) == 1
    assert [(record[b"index"], record[b"cells"]) for record in records] == [
        (b"%d" % index, b"6") for index in range(6)
    ]


@pytest.mark.parametrize("number", [3, 7])
def test_another_number_of_cells_is_refused(place, cells, number):
    other = place.open(cells=number)
    state = sorted(place.raw.keys(f"{{{place.ns}.*"))
    for call in (
        lambda: other.send_message("q", "x"),
        lambda: other.receive_message("q"),
        lambda: other.receive_message("q", wait=1),
        lambda: other.create_queue("r"),
        lambda: other.count_messages("q"),
    ):
        with pytest.raises(CellsMismatch, match=f"is cell 0 of 6 .* not cell 0 of {number}"):
            call()
    assert sorted(place.raw.keys(f"{{{place.ns}.*")) == state


def test_a_cell_of_another_set_is_refused(place, cells):
    place.raw.hset(f"{place.cell(3)}:x:cell", "set", "other")
    other = place.open()
    with pytest.raises(CellsMismatch, match="cell 3 of 6 of the set other"):
        other.count_messages("q")


def test_a_lost_record_of_the_first_cell_is_restored(place, cells):
    stored = place.raw.hget(f"{place.cell(5)}:x:cell", "set")
    place.raw.delete(f"{place.cell(0)}:x:cell")
    place.open().count_messages("q")
    assert place.raw.hget(f"{place.cell(0)}:x:cell", "set") == stored


@pytest.fixture
def clock(monkeypatch):
    """The clock of the checks of records; a test adds seconds to its only element."""
    added = [0.0]
    for folder in ("cells", "_sync"):
        name = f"rsmq.{folder}.membership.monotonic"
        monkeypatch.setattr(name, lambda: time.monotonic() + added[0])
    return added


def send_to(cells, cell):
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == cell)
    return cells.send_message("q", "x", key=key)


def test_a_running_client_refuses_a_cell_that_belongs_to_another_set_by_now(place, cells, clock):
    """Its server was replaced by that of another set, for example."""
    send_to(cells, 3)
    place.raw.hset(f"{place.cell(3)}:x:cell", "set", "other")
    clock[0] += RECHECK_SECONDS + 1
    with pytest.raises(CellsMismatch, match="cell 3 of 6 of the set other"):
        send_to(cells, 3)
    assert place.raw.zcard(f"{place.cell(3)}:q") == 1
    with pytest.raises(CellsMismatch):
        cells.receive_message("q", wait=0.1)
    assert send_to(cells, 2)


def test_a_running_client_restores_a_lost_record_and_reports_it(place, cells, clock, caplog):
    stored = place.raw.hgetall(f"{place.cell(3)}:x:cell")
    place.raw.unlink(f"{place.cell(3)}:x:cell")
    send_to(cells, 3)
    assert not place.raw.exists(f"{place.cell(3)}:x:cell")
    clock[0] += RECHECK_SECONDS + 1
    send_to(cells, 3)
    assert place.raw.hgetall(f"{place.cell(3)}:x:cell") == stored
    (text,) = [each for each in caplog.messages if "record" in each]
    assert text.startswith(f"Cell 3 ({place.cell(3)}) has lost its record")


def test_a_record_is_read_once_in_a_while(place, cells, clock):
    for _ in range(3):
        send_to(cells, 3)
    place.raw.hset(f"{place.cell(3)}:x:cell", "set", "other")
    send_to(cells, 3)
    clock[0] += RECHECK_SECONDS - 5
    send_to(cells, 3)


@pytest.fixture
def patient(monkeypatch):
    """A server that could not be reached is left alone until the end of the test."""
    monkeypatch.setattr("rsmq.cells.failures._FIRST_SECONDS", 60)
    monkeypatch.setattr("rsmq.cells.failures._LONGEST_SECONDS", 60)


def test_a_cell_that_rejects_a_receive_is_asked_once(place, cells, patient):
    """It does not delay the receives from the other cells of its server."""
    assert cells.receive_message("q") is None  # the server gets the script
    place.raw.set(f"{place.cell(2)}:q", "of another program")
    before = place.raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    with pytest.raises(PartlyDone, match="not in 2 of 6") as caught:
        cells.receive_message("q")
    assert "WRONGTYPE" in caught.value.errors[2]
    assert place.raw.info("commandstats")["cmdstat_evalsha"]["calls"] == before + 6
    sent = [id for _ in range(9) for id in send_where_possible(cells)]
    found = [cells.receive_message("q", wait=5).id for _ in sent]
    assert sorted(found) == sorted(sent)
    assert {cell_of(id) for id in sent} == {0, 1, 3, 4, 5}


def send_where_possible(cells):
    """Send a message to the next cell; return its id, or nothing if the cell rejects it."""
    try:
        return [cells.send_message("q", "x")]
    except ResponseError:
        return []


def test_messages_of_other_clients_are_refused(place, cells, rsmq):
    rsmq.create_queue("q")
    rsmq.send_message("q", "x")
    message = rsmq.receive_message("q")
    for call in (cells.delete_message, cells.processing, lambda m: cells.delete_messages([m])):
        with pytest.raises(InvalidFormat, match="received from these cells"):
            call(message)


def test_texts_that_cannot_be_encoded_are_refused(place, cells):
    for call in (
        lambda: cells.send_message("q", "x", key="\ud800"),
        lambda: cells.send_messages("q", ["x"], key="\ud800"),
        lambda: cells.publish(["q"], "x", key="\ud800"),
        lambda: cells.send_message("q", "x", dedup_id="\ud800"),
        lambda: place.make_client(ns="\ud800"),
    ):
        with pytest.raises(InvalidFormat, match=r"'\\ud800'"):
            call()
    assert cell_of(cells.send_message("q", "x", key="\udc80")) == cell_of_key("\udc80", 6)
    assert cells.count_messages("q").visible == 1


def test_an_id_after_a_message_is_refused(place, cells):
    cells.send_message("q", "x")
    message = cells.receive_message("q")
    for call in (
        lambda: cells.delete_message(message, "0-" + "x" * 32),
        lambda: cells.change_message_visibility(message, "0-" + "x" * 32, 0),
    ):
        with pytest.raises(InvalidFormat, match="not both"):
            call()
    assert cells.count_messages("q").in_flight == 1
    assert cells.change_message_visibility(message, 0)


@pytest.mark.parametrize("argument", [{"wait": "x"}, {"vt": -1}, {"codec": "x"}, {"batch": 0}])
def test_consume_checks_its_arguments_at_once(cells, argument):
    with pytest.raises((InvalidFormat, InvalidValue)):
        cells.consume("q", **argument)


def test_the_same_error_in_all_cells_is_raised(cells):
    """A bare id is looked for in all cells."""
    bare = "x" * 32
    with pytest.raises(QueueNotFound):
        cells.change_message_visibility("missing", bare, 0)
    with pytest.raises(QueueNotFound):
        cells.move_messages("q", "missing", [bare])
    with pytest.raises(InvalidValue):
        cells.change_message_visibility("q", bare, -1)


def test_a_dedup_id_counts_within_the_cell_of_the_key(place, cells):
    """Also if it is sent with another key of the same cell."""
    keys = [str(number) for number in range(50)]
    first = keys[0]
    same = next(key for key in keys[1:] if cell_of_key(key, 6) == cell_of_key(first, 6))
    other = next(key for key in keys if cell_of_key(key, 6) != cell_of_key(first, 6))
    sent = cells.send_message("q", "first", key=first, dedup_id="d")
    assert cells.send_message("q", "same", key=same, dedup_id="d") == sent
    assert cells.send_message("q", "other", key=other, dedup_id="d") != sent
    stored = place.bodies("q")
    assert list(stored[cell_of_key(first, 6)].values()) == [b"first"]
    assert list(stored[cell_of_key(other, 6)].values()) == [b"other"]


@pytest.mark.parametrize("number", [1, 6])
def test_moves_that_are_not_confirmed(place, cells, number):
    """The server has no replica: the messages are moved in all cells, and it is said so."""
    cells.create_queue("other")
    sent = [cells.send_message("q", "x") for _ in range(number)]
    messages = cells.receive_messages("q", 10)
    with pytest.raises(NotReplicated) as caught:
        cells.move_messages(messages, "other", confirm=Confirm(replicas=1, timeout=0.01))
    assert sorted(caught.value.result) == sorted(sent)
    stored = {join_id(cell, id) for cell, ids in enumerate(place.bodies("other")) for id in ids}
    assert stored == set(sent)


def test_a_move_that_is_not_confirmed_while_a_cell_has_no_queue(place, cells):
    cells.create_queue("other")
    sent = [cells.send_message("q", "x") for _ in range(6)]
    messages = cells.receive_messages("q", 10)
    place.raw.delete(f"{place.cell(4)}:other:Q")
    with pytest.raises(PartlyDone, match="not in 4 of 6") as caught:
        cells.move_messages(messages, "other", confirm=Confirm(replicas=1, timeout=0.01))
    assert sorted(caught.value.result) == sorted(id for id in sent if cell_of(id) != 4)
    assert caught.value.__notes__ == [
        "Stored, but not confirmed by replicas, in these cells: "
        + ", ".join(str(cell_of(message.id)) for message in messages if message.cell != 4)
    ]


def test_a_redrive_passes_over_cells_without_dead_letters(place, cells):
    """Nothing is changed there, so it needs no confirmation."""
    cells.create_queue("dead")
    key = next(key for key in map(str, range(99)) if cell_of_key(key, 6) == 3)
    id = cells.send_message("dead", "x", key=key)
    with pytest.raises(NotReplicated, match="1 message redriven") as caught:
        cells.redrive_messages("dead", "q", confirm=Confirm(replicas=1, timeout=0.01))
    assert [old for old, _ in caught.value.result] == [id]
    assert cells.redrive_messages("dead", "q", confirm=Confirm(replicas=1, timeout=0.01)) == []


def test_a_redrive_stops_at_the_first_cell_that_is_not_confirmed(place, cells):
    cells.create_queue("dead")
    for _ in range(12):
        cells.send_message("dead", "x")
    with pytest.raises(NotReplicated, match="2 messages redriven; redrive again") as caught:
        cells.redrive_messages("dead", "q", confirm=Confirm(replicas=1, timeout=0.01))
    assert [len(of_cell) for of_cell in place.bodies("q")] == [2, 0, 0, 0, 0, 0]
    assert [len(of_cell) for of_cell in place.bodies("dead")] == [0, 2, 2, 2, 2, 2]
    stored = {join_id(0, id) for id in place.bodies("q")[0]}
    assert {new for _, new in caught.value.result} == stored
    assert {cell_of(old) for old, _ in caught.value.result} == {0}


def test_expired_messages_are_removed_in_each_cell(place, cells):
    assert cells.set_queue_attributes("q", keep=60).keep == 60
    old = "g0000000001234567890123456789ABC"
    for index in range(6):
        place.raw.hset(f"{place.cell(index)}:q:Q", old, "m")
        place.raw.zadd(f"{place.cell(index)}:q", {old: 1})
    assert len(cells.sweep_expired("q", 2)) == 2
    assert len(cells.sweep_expired("q")) == 4
    assert not any(place.bodies("q"))
