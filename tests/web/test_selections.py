"""Selections: an action does exactly what was shown before, whatever happens in between."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pytest

from rsmq.operations.plain import plain_command
from rsmq.search.redaction import Redaction
from rsmq.web.fields import Refused
from rsmq.web.pages.recent_changes import say_move
from rsmq.web.selection import changes, operations, previews
from rsmq.web.selection.changes import SelectionAction, execute
from rsmq.web.selection.operations import delete_rows
from rsmq.web.selection.previews import load_selection, preview, preview_ids

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    """Several steps for few messages: the server of these tests is slow."""
    for module in (changes, previews):
        monkeypatch.setattr(module, "STEP", 4)
    monkeypatch.setattr(operations, "_PLACES", 8)


_SEES_ALL = Redaction()


async def _bodies(queues, name="q"):
    return sorted(m.body for m in await queues.peek_messages(name, count=999))


async def _preview(http, **fields):
    answer = await http("POST", "/queues/q/messages:preview", fields)
    assert answer.status == 200, answer.json
    return answer.json


async def _act(http, action, selection, **fields):
    path = f"/queues/q/messages:{action}"
    return await http("POST", path, {"selection": selection, **fields})


async def _fill(queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    await queues.send_messages("q", ["red"] * 10 + ["blue"] * 2)
    await queues.send_messages("other", ["red of before"] * 2)


async def _traffic(queues):
    """Messages come that fit, some of them with ids of before; others are received."""
    await queues.send_messages("q", ["red later"] * 3)
    waiting = [m.id for m in await queues.peek_messages("other")]
    await queues.move_messages("other", "q", waiting)
    await queues.receive_messages("other", 1)


@pytest.mark.parametrize("undo", [True, False])
async def test_exactly_the_messages_of_a_preview_are_deleted_while_others_come(undo, http, queues):
    await _fill(queues)
    shown = await _preview(http, filter="body:red")
    assert (shown["count"], shown["is_complete"]) == (10, True)
    await _traffic(queues)
    done = await _act(http, "delete", shown["selection"], undo=undo)

    assert (done.status, done.json["done"], done.json["left"]) == (200, 10, 0)
    rest = ["blue"] * 2 + ["red later"] * 3 + ["red of before"] * 2
    assert await _bodies(queues) == sorted(rest)
    assert (done.json["undo"] is not None) == undo
    if undo:
        await http("POST", f"/undo/{done.json['undo']['id']}")
        assert await _bodies(queues) == sorted(rest + ["red"] * 10)


async def _receive(queues):
    return (await queues.receive_message("q")).id


async def _delete(queues):
    id = (await queues.peek_messages("q", count=1))[0].id
    await queues.delete_message("q", id)
    return id


async def _hide(queues):
    id = (await queues.peek_messages("q", count=1))[0].id
    await queues.change_message_visibility("q", id, 60)
    return id


@pytest.mark.parametrize("change", [_receive, _delete, _hide])
@pytest.mark.parametrize("action", ["delete", "move", "release"])
async def test_nothing_is_changed_if_a_message_is_not_as_it_was_shown(change, action, http, queues):
    await _fill(queues)
    fields = {"destination": "other"} if action == "move" else {}
    shown = await _preview(http, filter="body:red")
    await change(queues)
    before = [(m.id, m.visible_at_ms) for m in await queues.peek_messages("q", count=999)]
    refused = await _act(http, action, shown["selection"], **fields)

    assert (refused.status, refused.json["code"]) == (409, "selectionChanged")
    assert "1 of the messages" in refused.json["detail"]
    now = [(m.id, m.visible_at_ms) for m in await queues.peek_messages("q", count=999)]
    assert now == before
    count = 9 if change is _delete else 10
    assert refused.json["count"] == count
    done = await _act(http, action, refused.json["selection"], **fields)
    assert (done.status, done.json["done"]) == (200, count)
    assert (await _bodies(queues)).count("red") == (count if action == "release" else 0)


def test_the_test_above_would_see_an_action_that_does_not_check(run):
    def unchecked(keys, rows, *, strict):
        return delete_rows(keys, [(id, "", "") for id, _, _ in rows], strict=strict)

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_messages("q", ["red"] * 3)
        shown = await _preview(http)
        await _receive(queues)
        with patch.object(changes, "delete_rows", unchecked):
            assert (await _act(http, "delete", shown["selection"])).status == 200
        assert await _bodies(queues) == []

    run(test)


@pytest.mark.parametrize("number", [4, 12])
@pytest.mark.parametrize("undo", [True, False])
async def test_a_message_that_is_received_after_the_check_stays(number, undo, http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["m"] * number)
    shown = await _preview(http)
    step, taken = changes._Run.step, []

    async def late(self, rows):
        if not taken:
            taken.append(await _receive(queues))
        return await step(self, rows)

    with patch.object(changes._Run, "step", late):
        answer = await _act(http, "delete", shown["selection"], undo=undo)
    left = [m.id for m in await queues.peek_messages("q", count=999)]
    if number == 4:  # one script checks and changes them
        assert (answer.status, len(left)) == (409, 4)
    else:
        assert (answer.json["done"], answer.json["left"]) == (11, 1)
        assert left == taken


async def test_large_messages_are_deleted_with_undo_in_steps(http, queues):
    await queues.create_queue("q", maxsize=-1)
    await queues.send_messages("q", ["m" * 700_000] * 3)
    shown = await _preview(http)
    one_step, taken = changes.delete_step, []

    def late(*arguments, strict):
        if not strict:  # of those behind the first step
            taken.append(arguments[-1][0][0])
            arguments = (*arguments[:-1], [(id, "9", at) for id, _, at in arguments[-1]])
        return one_step(*arguments, strict=strict)

    with patch.object(changes, "delete_step", late):
        answer = await _act(http, "delete", shown["selection"], undo=True)
    assert (answer.json["done"], answer.json["left"]) == (2, 1)
    assert [m.id for m in await queues.peek_messages("q")] == taken


async def test_a_moved_message_keeps_its_counts_and_a_released_one_its_place(http, queues):
    await _fill(queues)
    received = await queues.receive_messages("q", 2)
    ids = [m.id for m in received]
    shown = await _preview(http, ids=[*ids, "x" * 32])
    assert shown["count"] == 2
    released = await _act(http, "release", shown["selection"])
    assert released.json == {"done": 2, "left": 0}
    assert {m.id for m in await queues.peek_messages("q", count=99, state="visible")} >= {*ids}
    shown = await _preview(http, filter="rc>=1")
    moved = await _act(http, "move", shown["selection"], destination="other")
    assert moved.json["done"] == 2
    assert (await queues.get_message("other", ids[0])).receive_count == 1


async def test_a_selection_is_of_one_queue_ends_and_can_not_be_made_up(http, queues):
    await _fill(queues)
    token = (await _preview(http))["selection"]
    place, _, secret = token.partition(".")
    other = await http("POST", "/queues/other/messages:delete", {"selection": token})
    assert other.status == 422
    for wrong in (f"{place}.x{secret[1:]}x", f"9.{secret}", "next", "", "é.\ud800"):
        answer = await _act(http, "delete", wrong)
        assert (answer.status, answer.json["code"]) == (409, "selectionNotFound"), wrong
    for field in ({"ids": []}, {"filter": ""}):
        assert (await _act(http, "delete", token, **field)).status == 422
    for _ in range(8):
        await _preview(http, filter="body:none")
    assert (await _act(http, "delete", token)).json["code"] == "selectionNotFound"
    assert len(await _bodies(queues)) == 12


async def test_an_id_that_can_not_be_stored_is_refused_by_a_preview(http, queues):
    await queues.create_queue("q")
    answer = await http("POST", "/queues/q/messages:preview", {"ids": ["i" * 32, "\ud800"]})
    assert (answer.status, answer.json["code"]) == (422, "invalidFormat")
    assert "lone surrogate" in answer.json["hint"]


async def test_a_selection_that_is_too_large_is_for_a_stored_operation(http, queues):
    await _fill(queues)
    with patch.object(previews, "MAX_MESSAGES", 5), patch.object(changes, "MAX_MESSAGES", 5):
        shown = await _preview(http, filter="body:red")
        assert (shown["is_complete"], shown["selection"]) == (False, None)
        assert shown["count"] > 5
        selection = await preview(queues, "q", redaction=_SEES_ALL)
        with pytest.raises(Refused, match="more than 5"):
            await execute(queues, selection, SelectionAction.DELETE, redaction=_SEES_ALL)
    assert len(await _bodies(queues)) == 12


async def test_the_same_messages_have_the_same_digest(http, queues):
    await _fill(queues)
    first = await _preview(http, filter="body:red")
    again = await _preview(http, ids=[
        m.id for m in await queues.peek_messages("q", count=99) if m.body == "red"
    ])  # fmt: skip
    await _receive(queues)
    assert first["digest"] == again["digest"]
    assert first["digest"] != (await _preview(http, filter="body:red"))["digest"]


async def test_a_selection_that_is_loaded_is_the_one_that_was_stored(queues):
    await _fill(queues)
    chosen = [m.id for m in await queues.peek_messages("q", count=5)]
    selection = await preview_ids(queues, "q", chosen)
    assert await load_selection(queues, selection.token) == selection
    await execute(queues, selection, SelectionAction.DELETE, redaction=_SEES_ALL, undo=True)
    assert len(await _bodies(queues)) == 7


async def test_many_previews_of_a_caller_leave_the_selections_of_others(queues):
    await _fill(queues)
    mine = await preview(queues, "q", redaction=_SEES_ALL, by="anna")
    others = [await preview(queues, "q", redaction=_SEES_ALL, by="bert") for _ in range(9)]
    assert (await load_selection(queues, mine.token)).count == 12
    with pytest.raises(Refused):
        await load_selection(queues, others[0].token)


async def test_the_audit_has_the_number_and_the_ids_that_were_received_most_often(http, queues):
    await _fill(queues)
    *_, suspect = sorted(m.id for m in await queues.peek_messages("q") if m.body == "red")
    count = plain_command("HSET", queues.namespace.queue("q").hash, f"{suspect}:rc", "3")
    await queues.run(count)
    shown = await _preview(http, state="visible")
    assert (await _act(http, "move", shown["selection"], destination="other")).status == 200
    entries = (await http("GET", "/audit?queue=q")).json["entries"]
    end, begin = entries
    assert (end["done"], end["destination"], len(end["ids"].split(","))) == ("12", "other", 10)
    assert end["ids"].startswith(suspect)
    assert begin.keys().isdisjoint({"done", "ids"})
    assert say_move(entries, "other", suspect).endswith(" a caller moved it here from q.")
    http.prefix, http.headers = "", {"accept": "text/html"}
    page = (await http("GET", "/activity")).content.decode()
    assert ">other</a>: 12 messages</td>" in page
