"""The page of alerts, its actions, and the entries of the API behind it."""

import json

import pytest

from rsmq.operations.plain import plain_command
from tests.web.alert_place import AlertPlace
from tests.web.pages_client import open_pages, read_page, run_action

_URL = "https://hooks.slack.com/services/T000/B000/s3cret?token=s3cret"


@pytest.fixture
def place(queues):
    return AlertPlace(queues)


async def _audit(http):
    return (await http("GET", "/audit")).json["entries"]


async def test_a_target_is_added_changed_listed_tested_and_removed(http, place):
    added = await http("PUT", "/alert-targets/team", {"url": _URL, "format": "slack"})
    assert (added.status, added.json) == (201, {"added": True})
    stored = (await place.fields())["target:team"]
    assert stored.pop("created_ms") > 0
    assert stored == {"format": "slack", "secret_env": None, "url": _URL}
    changed = await http("PUT", "/alert-targets/team", {"url": _URL, "format": "slack"})
    assert (changed.status, changed.json) == (200, {"added": False})
    listed = await http("GET", "/alert-targets")
    [shown] = listed.json["targets"]
    assert (shown["name"], shown["url"]) == ("team", "https://hooks.slack.com/***")
    assert (shown["answer"], shown["waiting"], listed.json["checked_ms"]) == (None, 0, None)
    assert (await http("POST", "/alert-targets/team:test", {})).status == 202
    assert (await http("GET", "/alert-targets")).json["targets"][0]["waiting"] == 2
    assert b"s3cret" not in listed.content + (await http("GET", "/audit")).content
    assert (await http("DELETE", "/alert-targets/team")).status == 204
    assert await place.fields() == {}
    for method, path in (("DELETE", ""), ("POST", ":test")):
        gone = await http(method, f"/alert-targets/team{path}")
        assert (gone.status, gone.json["code"]) == (404, "alertTargetNotFound")
    calls = [(each["call"], each["target"]) for each in await _audit(http)]
    assert ("PUT /alert-targets/{target}", "team") in calls


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("a.b", {"url": _URL}, "1 to 64 characters"),
        ("a", {}, "url"),
        ("a", {"url": "ftp://example.org/s3cret"}, "URL with a host"),
        ("a", {"url": "https://u:s3cret@example.org/s3cret"}, "a user or a password"),
        ("a", {"url": _URL, "format": "mail"}, "webhook, slack, pagerduty"),
        ("a", {"format": "pagerduty"}, "routing key"),
        ("a", {"format": "pagerduty", "secret_env": "REDIS_s3cret"}, "begins with PAGERDUTY_"),
        ("a", {"url": _URL, "format": "slack", "secret_env": "A"}, "in its URL"),
        ("a", {"url": _URL, "secret_env": "whsec_s3cret"}, "and not the secret"),
    ],
)
async def test_a_target_that_is_not_valid_changes_nothing(http, place, name, values, says):
    refused = await http("PUT", f"/alert-targets/{name}", values)
    assert refused.status == 422
    assert says in json.dumps(refused.json)
    assert b"s3cret" not in refused.content
    assert await place.fields() == {}


async def test_the_number_of_targets_and_of_silences_is_bounded(http, place):
    for at in range(20):
        await http("PUT", f"/alert-targets/t{at}", {"url": _URL})
    refused = await http("PUT", "/alert-targets/other", {"url": _URL})
    assert (refused.status, "0 and 20, not 21" in refused.json["detail"]) == (422, True)
    assert (await http("PUT", "/alert-targets/t1", {"url": _URL})).status == 200
    words = {"seconds": 60, "why": "x"}
    for at in range(100):
        await http("PUT", "/alert-silences/paused", {"subject": f"q{at}", **words})
    assert (await http("PUT", "/alert-silences/all", words)).status == 422
    assert len(await place.fields("silence:")) == 100


async def test_silences_that_have_ended_do_not_stay_without_targets(http, place):
    for at in range(3):
        words = {"subject": f"q{at}", "seconds": 1, "why": "x"}
        assert (await http("PUT", "/alert-silences/paused", words)).status == 201
        await place.pass_time(2)
    assert list(await place.fields()) == ["silence:paused:q2"]


@pytest.mark.parametrize("subject", ["q" * 1025, "\ud800"])
async def test_a_subject_that_no_alert_can_have_is_refused(http, place, subject):
    words = {"subject": subject, "seconds": 1, "why": "x"}
    refused = await http("PUT", "/alert-silences/paused", words)
    assert (refused.status, "1,024 characters" in json.dumps(refused.json)) == (422, True)
    assert await place.fields() == {}
    words["subject"] = "é" * 1024
    assert (await http("PUT", "/alert-silences/dead-worker", words)).status == 201


async def test_a_target_has_one_test_that_waits(http, place):
    await http("PUT", "/alert-targets/ops", {"url": _URL})
    await http("PUT", "/alert-targets/other", {"url": _URL})
    for _ in range(3):
        assert (await http("POST", "/alert-targets/ops:test", {})).status == 202
        await place.pass_time(1)
    assert (await http("POST", "/alert-targets/other:test", {})).status == 202
    waiting = [each["target"] for each in (await place.fields("message:")).values()]
    assert sorted(waiting) == ["ops", "ops", "other", "other"]


async def test_a_silence_has_who_why_and_its_end_and_is_recorded(http, place):
    await place.begin("orders")
    words = {"subject": "orders", "seconds": 3600, "why": "new workers"}
    made = await http("PUT", "/alert-silences/paused", words)
    assert made.status == 201
    [alert] = [
        each for each in (await http("GET", "/alerts")).json["alerts"] if each["kind"] == "paused"
    ]
    silence = alert["silence"]
    assert (silence["why"], silence["until_ms"]) == ("new workers", made.json["until_ms"])
    assert silence["until_ms"] - silence["created_ms"] == 3_600_000
    listed = (await http("GET", "/alert-silences")).json["silences"]
    assert listed == [{"kind": "paused", "subject": "orders", **silence}]
    entry = next(each for each in await _audit(http) if each["phase"] == "end")
    assert (entry["call"], entry["queue"]) == ("PUT /alert-silences/{kind}", "orders")
    assert json.loads(entry["changes"])["silence"][1]["why"] == "new workers"
    assert (await http("DELETE", "/alert-silences/paused?subject=orders")).status == 204
    gone = await http("DELETE", "/alert-silences/paused?subject=orders")
    assert (gone.status, gone.json["code"]) == (404, "silenceNotFound")
    assert await place.fields("silence:") == {}


@pytest.mark.parametrize(
    ("kind", "words", "says"),
    [
        ("lost", {"seconds": 1, "why": "x"}, "one of alerts-not-sent"),
        ("all", {"seconds": 0, "why": "x"}, "between 1 and"),
        ("all", {"seconds": 1, "why": ""}, "1 to 128"),
        ("all", {"seconds": 1}, "why"),
    ],
)
async def test_a_silence_that_is_not_valid_changes_nothing(http, place, kind, words, says):
    refused = await http("PUT", f"/alert-silences/{kind}", words)
    assert refused.status == 422
    assert says in json.dumps(refused.json)
    assert await place.fields() == {}


async def test_the_page_works_without_javascript(http, place):
    await place.begin("orders")
    open_pages(http)
    text = await read_page(http, "/alerts")
    assert "Alertmanager" in text
    assert "rsmq alerts add ops" in text
    target = {"target": "team", "format": "slack", "url": _URL, "secret_env": ""}
    assert (await run_action(http, "add-alert-target", **target)).status == 303
    http.app.router.default.forget_all()
    text = await read_page(http, "/alerts")
    assert "https://hooks.slack.com/***" in text
    assert "s3cret" not in text
    assert "No server sends alerts now" in text
    assert (await run_action(http, "test-alert-target", target="team")).status == 303
    overview = await read_page(http, "/")
    assert "/actions/silence-alert?kind=paused&amp;subject=orders" in overview
    form = await read_page(http, "/actions/silence-alert?kind=paused&subject=orders")
    assert "Silence the alert paused of orders" in form
    assert "rsmq alerts silence" in form
    words = {"kind": "paused", "subject": "orders", "seconds": "86400", "why": "new <b> workers"}
    assert (await run_action(http, "silence-alert", **words)).status == 303
    http.app.router.default.forget_all()
    for page in ("/alerts", "/"):
        assert "new &lt;b&gt; workers" in await read_page(http, page)
    assert "silenced alerts (" in await read_page(http, "/activity")
    ended = await run_action(http, "end-silence", kind="paused", subject="orders")
    assert ended.status == 303
    everything = {"kind": "all", "seconds": "3600", "why": "a move"}
    assert (await run_action(http, "silence-alert", **everything)).status == 303
    assert set(await place.fields("silence:")) == {"silence:all"}
    assert (await run_action(http, "remove-alert-target", target="team")).status == 303
    assert await place.fields("target:") == {}


async def test_the_doctor_finds_no_fault_in_the_record(http, place):
    await http("PUT", "/alert-targets/ops", {"url": "http://127.0.0.1:1/"})
    await http("PUT", "/alert-silences/memory", {"seconds": 60, "why": "x"})
    await place.begin("orders")
    await place.step()
    assert {each.partition(":")[0] for each in await place.fields()} == {
        "step", "target", "status", "silence", "alert", "message",
    }  # fmt: skip
    findings = (await http("GET", "/doctor")).json["findings"]
    assert [each for each in findings if "alerts" in json.dumps(each)] == []


async def test_the_page_has_the_last_answer_of_a_target(http, place):
    await http("PUT", "/alert-targets/ops", {"url": "http://127.0.0.1:1/"})
    await place.begin("orders")
    await place.step()
    open_pages(http)
    text = await read_page(http, "/alerts")
    assert "1 failure" in text
    assert "no connection" in text
    assert "No server sends alerts now" not in text


async def test_a_record_of_a_newer_version_is_left_out_and_kept(http, place):
    status = '{"failures":"x","until_ms":null}'
    odd = ["target:new", '{"shape":2}', "silence:all", "x", "further:a", "b", "status:ops", status]
    odd += ["silence:paused:orders", '{"by":1,"why":"","created_ms":0,"until_ms":"x"}']
    odd += ["message:1:1:ops", '{"alert":{"kind":1},"target":"ops"}', "alert:x:y", "[1]"]
    await place.queues.run(plain_command("HSET", place.namespace.alerts, *odd))
    await place.begin("orders")
    assert (await http("GET", "/alert-targets")).json["targets"] == []
    await http("PUT", "/alert-targets/ops", {"url": "http://127.0.0.1:1/"})
    await place.sender.step()
    fields = await place.queues.run(plain_command("HKEYS", place.namespace.alerts))
    assert {b"target:new", b"silence:all", b"further:a", b"alert:paused:orders"} <= set(fields)
