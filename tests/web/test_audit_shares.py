"""A caller with many calls pushes only its own entries out of the audit stream."""

import json
import logging

from rsmq.web import audit_shares
from rsmq.web.access.secrets import hash_token
from tests.web.test_pages import _users

_TOKENS = "".join(
    f'[tokens.{name}]\nsha256 = "{hash_token(f"rsmq_{name}")}"\nrole = "admin"\n'
    for name in ("anna", "flood")
)


def _as(name):
    return {"authorization": f"Bearer rsmq_{name}"}


def test_a_caller_keeps_its_share_and_the_log_has_the_rest(run, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(audit_shares, "MAX_OF_CALLER", 20)
    monkeypatch.setattr(audit_shares, "_STEP", 10)

    async def test(http, queues):
        await queues.create_queue("q")
        assert (await http("POST", "/queues/q:purge", headers=_as("anna"))).status == 200
        for _ in range(40):
            await http("POST", "/queues/q:pause", headers=_as("flood"))
        entries = (await http("GET", "/audit?limit=1000", headers=_as("anna"))).json["entries"]
        users = [each["user"] for each in entries]
        assert users.count("anna") == 2
        assert 20 <= users.count("flood") < 30
        assert users[0] == "flood"
        logged = [each.getMessage() for each in caplog.records if "removed" in each.getMessage()]
        assert len(logged) == 80 - users.count("flood")
        facts = [json.loads(each[each.index("{") :]) for each in logged]
        assert {each["call"] for each in facts} == {"POST /queues/{queue}:pause"}
        assert {each["user"] for each in facts} == {"flood"}
        assert len({each.partition(": ")[2].split()[0] for each in logged}) == len(logged)

    with caplog.at_level(logging.WARNING, "rsmq.web"):
        run(test, auth=True, users=_users(tmp_path, _TOKENS))


def test_marks_count_for_the_share_of_their_caller(run, tmp_path, monkeypatch):
    monkeypatch.setattr(audit_shares, "MAX_OF_CALLER", 20)
    monkeypatch.setattr(audit_shares, "_STEP", 10)

    async def test(http, queues):
        await queues.create_queue("q")
        for number in range(60):
            await http("POST", "/queues/q:pause", headers=_as("flood"))
            body = {"text": f"v{number}"}
            assert (await http("POST", "/marks", body, headers=_as("flood"))).status == 201
        entries = (await http("GET", "/audit?limit=1000", headers=_as("anna"))).json["entries"]
        assert 20 <= len(entries) < 30
        assert entries[0]["target"] == "v59"

    run(test, auth=True, users=_users(tmp_path, _TOKENS))


def test_the_only_caller_of_a_server_needs_no_share(run, monkeypatch):
    monkeypatch.setattr(audit_shares, "MAX_OF_CALLER", 2)
    monkeypatch.setattr(audit_shares, "_STEP", 1)

    async def test(http, queues):
        await queues.create_queue("q")
        for _ in range(10):
            await http("POST", "/queues/q:pause")
        assert len((await http("GET", "/audit?limit=100")).json["entries"]) == 20

    run(test)
