"""Who has changed, paused, purged or moved something of late: what the pages say of it."""

import json
from datetime import UTC, datetime

import pytest

from rsmq.history.recorder import record_queues
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from rsmq.web.pages.formats import show_time
from rsmq.web.pages.recent_changes import changes_of, say_changes, say_move, say_moves, say_who
from tests.web.asgi import Http
from tests.web.pages_client import open_pages, read_page

_AT = 1_790_000_000_000
_PAUSE = "POST /queues/{queue}:pause"
_TIMEOUT = "visibility timeout 30 s \u2192 3 s"
_MOVE = "POST /queues/{queue}/messages:move"


def _entry(call, *, ago=0, **facts):
    end = {"user": "kim", "queue": "orders", "phase": "end", "outcome": "200"}
    return {"id": f"{_AT - ago * 1000}-1", "call": call} | end | facts


def _change(**facts):
    values = {"vt": [30, 3], "keep": [None, 60], "expired": ["drop", "dead-letter"]}
    return _entry("PATCH /queues/{queue}", changes=json.dumps(values), **facts)


def test_changes_are_said_with_the_old_and_the_new_values():
    assert changes_of(_change()) == [
        _TIMEOUT, "expiry none \u2192 60 s",
        "expired messages drop \u2192 dead-letter",
    ]  # fmt: skip
    for stored in ("no json", "[1]", '{"vt": 3}', '{"vt": [1, 2, 3]}', '{"other": [1, 2]}'):
        assert changes_of({"changes": stored}) == []
    assert changes_of({}) == []


def test_a_change_of_the_visibility_timeout_is_said_for_an_hour():
    def say(entry, *queues):
        return say_changes([entry], queues or ["orders"], _AT)

    assert say(_change(ago=3599)) == [
        f"At {show_time(_AT - 3_599_000)} kim changed attributes of orders: {_TIMEOUT}."
    ]
    assert " a caller changed attributes of orders" in say(_change(user="everyone"))[0]
    assert say(_change(ago=3600)) == say(_change(), "other") == []
    assert say(_change(phase="begin")) == say(_change(outcome="queueNotFound")) == []
    assert say(_entry("PATCH /queues/{queue}", changes='{"delay": [0, 5]}')) == []


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (_entry(_PAUSE, ago=5), f"At {show_time(_AT - 5000)} kim paused it."),
        (_entry(_PAUSE, ago=7), ""),  # an earlier pause
        (_entry(_PAUSE, ago=5, user="everyone"), ""),
        (_entry(_PAUSE, ago=5, queue="other"), ""),
        (_entry("POST /queues/{queue}:purge", ago=5), ""),
    ],
)
def test_a_pause_is_of_who_has_made_it_and_not_of_an_earlier_one(entry, said):
    assert say_who([entry], "paused", "orders", _AT - 5500) == said


def test_a_message_is_said_to_be_moved_by_whom_only_if_that_is_recorded():
    moved = _entry(_MOVE, ago=2, destination="dead", ids="m1,m2")
    at = show_time(_AT - 2000)
    assert say_move([moved], "dead", "m2") == f"At {at} kim moved it here from orders."
    assert say_move([moved], "dead", "m") == say_move([moved], "other", "m1") == ""
    assert say_moves([moved], "dead") == f"At {at} kim moved messages of orders here."
    assert say_moves([moved], "orders") == ""


def _users(tmp_path):
    path = tmp_path / "users.toml"
    entries = [
        f'[tokens.kim]\nsha256 = "{hash_token("rsmq_kim")}"\nrole = "admin"\n',
        f'[tokens.own]\nsha256 = "{hash_token("rsmq_own")}"\nrole = "admin"\nqueues = ["legacy"]\n',
    ]
    path.write_text("".join(entries))
    path.chmod(0o600)
    return path


def test_who_has_changed_a_queue_is_on_each_page_that_says_what_is_wrong_with_it(run, tmp_path):
    async def test(http, queues):
        for name in ("legacy", "legacy-dead", "paused"):
            await queues.create_queue(name, vt=600)
        await queues.set_dead_letter_policy("legacy", "legacy-dead", 20)
        [moved, *_] = await queues.send_messages("legacy", ["a"] * 8)
        await queues.send_message("paused", "a")
        await record_queues(queues, int(datetime.now(UTC).timestamp()) // 60)
        kim = {"authorization": "Bearer rsmq_kim"}
        http.headers = kim
        await http("POST", "/queues/paused:pause")
        values = {"destination": "legacy-dead", "ids": [moved]}
        assert (await http("POST", "/queues/legacy/messages:move", values)).status == 200
        assert (await http("PATCH", "/queues/legacy", {"vt": 500, "delay": 0})).status == 200
        assert (await http("PATCH", "/queues/legacy", {"maxsize": 7})).status == 422
        assert (await http("PATCH", "/queues/none", {"vt": 7})).status == 404
        entries = (await http("GET", "/audit?queue=legacy")).json["entries"]
        shown = [each for each in entries if each["phase"] == "end"]
        assert [each.get("changes") for each in shown] == [None, '{"vt": [600, 500]}', None]
        assert [each.get("ids") for each in shown] == [None, None, moved]
        assert [each.get("destination") for each in shown] == [None, None, "legacy-dead"]
        http.headers = {"authorization": "Bearer rsmq_own"}
        entries = (await http("GET", "/audit?queue=legacy")).json["entries"]
        assert {each.get("destination") for each in entries} == {None}
        await _receive_again(queues, "legacy")

        open_pages(http).headers |= kim
        change = "visibility timeout 600 s \u2192 500 s"
        overview = await read_page(http, "/")
        assert (
            overview.count(" kim changed attributes of legacy: ") == 2
        )  # of the queue, and its dead letters
        assert " kim paused it." in overview
        assert ">Change the visibility timeout of legacy</a>" in overview
        queue = await read_page(http, "/queues/legacy")
        assert change in queue
        assert ">Change the visibility timeout</a>" in queue
        assert " kim paused it." in await read_page(http, "/queues/paused")
        assert change in await read_page(http, "/activity")
        page = await read_page(http, f"/queues/legacy-dead/messages/{moved}")
        assert " kim moved it here from legacy." in page
        assert "It failed too often" not in page
        letters = await read_page(http, "/dead-letters/legacy-dead")
        assert " kim moved messages of legacy here." in letters
        assert change in letters
        redrive = await read_page(http, "/actions/redrive?queue=legacy-dead")
        assert "They may die again. Messages of queue legacy are received again" in redrive
        assert '<button class="main">Redrive</button>' in redrive

    run(test, auth=True, users=_users(tmp_path))


async def _receive_again(queues, qname):
    """Let half of the messages in flight be received twice, as by a slow consumer."""
    await queues.release_messages(await queues.receive_messages(qname, 4))
    await queues.receive_messages(qname, 8)


async def test_an_overview_without_such_alerts_does_not_read_the_audit(monkeypatch, http, queues):
    await queues.create_queue("q")
    read = []

    async def refuse(*_, **__):
        read.append(1)
        return ()

    monkeypatch.setattr("rsmq.web.pages.views.overview.read_changes", refuse)
    await read_page(open_pages(http), "/")
    assert read == []
    await queues.send_message("q", "a")
    await queues.pause_queue("q")
    await read_page(open_pages(Http(create_app(queues, auth=False))), "/")
    assert read == [1]


async def test_a_record_of_another_program_is_no_change(http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    await queues.pause_queue("q")
    await queues.run(plain_command("XADD", queues.namespace.audit, "*", "call", _PAUSE))
    assert "paused" in await read_page(open_pages(http), "/queues/q")
