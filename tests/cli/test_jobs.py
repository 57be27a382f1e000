"""``rsmq job``, ``rsmq jobs`` and ``rsmq cancel``."""

from __future__ import annotations

import pytest

from rsmq.worker import Discard, Worker
from tests.scale import WAIT_SECONDS


@pytest.fixture
def ids(rsmq):
    """Return the ids of a job that has succeeded, one that has failed and one that waits."""
    rsmq.create_queue("q")
    worker = Worker(rsmq, name="w")

    @worker.listener("q", track=True, drop=True, max_retries=0)
    def handle(body):
        if body == "bad":
            raise Discard("no such customer")
        return {"pages": 3, "title": "ä\u200b"}

    good, bad = (rsmq.send_message("q", body, track=True) for body in ("good", "bad"))
    worker.run(until_empty=True, timeout=WAIT_SECONDS)
    return good, bad, rsmq.send_message("q", "late", delay=60, track=True)


def test_a_job_is_shown(cli, ids):
    good, bad, late = ids
    lines = cli("job", "q", good).lines
    assert [line.split()[0] for line in lines] == [
        "state", "attempt", "worker", "begun", "ended", "result",
    ]  # fmt: skip
    assert lines[-1] == 'result    {"pages": 3, "title": "\\u00e4\\u200b"}'
    document = cli("job", "q", good, "--json").json
    assert (document["state"], document["worker"]) == ("succeeded", "w")
    assert document["result"] == {"pages": 3, "title": "ä\u200b"}
    assert {"queue", "id", "attempt", "begun_at", "ended_at", "error"} <= set(document)
    assert "error     Discard: no such customer" in cli("job", "q", bad).lines
    assert cli("job", "q", good, "--wait", "30s").code == 0
    waiting = cli("job", "q", late, "--wait", "10ms")
    assert (waiting.code, waiting.lines) == (1, ["state     waiting", "attempt   0"])


def test_the_job_after_another_one_is_shown(cli, raw, ns, ids):
    good, _, late = ids
    raw.hset(f"{ns}:q:x:job:{good}", "next", f"{late} other")
    assert f"next      {late} in queue other" in cli("job", "q", good).lines
    assert cli("job", "q", good, "--json").json["following"] == {"queue": "other", "id": late}
    assert cli("job", "q", late, "--json").json["following"] is None


def test_a_job_that_is_not_there_or_not_valid_ends_with_a_code(cli, ids):
    missing = cli("job", "q", "x" * 32)
    assert (missing.code, missing.lines) == (1, [])
    assert "There is no such job" in missing.stderr
    assert cli("job", "q", "x").code == 2
    assert cli("jobs", "q", "--state", "done").code == 2


def test_jobs_are_listed_by_their_states_the_last_first(cli, ids):
    good, bad, late = ids
    heading, *rows = cli("jobs", "q").lines
    assert heading.split() == ["ID", "STATE", "ATTEMPT", "BEGUN", "ENDED", "WORKER", "ERROR"]
    assert [row.split()[:2] for row in rows] == [
        [late, "waiting"], [bad, "failed"], [good, "succeeded"],
    ]  # fmt: skip
    assert rows[1].endswith("Discard: no such customer")
    [failed] = cli("jobs", "q", "--state", "failed", "--json").json
    assert (failed["id"], failed["error"]) == (bad, "Discard: no such customer")
    assert [each["id"] for each in cli("jobs", "q", "-n", "2", "--json").json] == [late, bad]
    assert cli("jobs", "q", "--state", "expired", "--json").json == []
    assert cli("jobs", "other").code == 3


def test_jobs_are_cancelled(cli, rsmq, raw, ns, ids):
    good, _, late = ids
    running = rsmq.send_message("q", "runs", track=True)
    rsmq.receive_message("q")
    key = f"{ns}:q:x:job:{running}"
    raw.hset(key, mapping={"state": "running", "done": "3", "total": "10", "text": "pages"})

    ended = cli("cancel", "q", late, running, good, "x" * 32)
    assert (ended.code, ended.lines) == (1, [
        f"{late}: cancelled",
        f"{running}: it runs, and its worker is to cancel it",
        f"{good}: has ended already",
        f"{'x' * 32}: not there",
    ])  # fmt: skip
    assert rsmq.get_message("q", late) is None
    assert cli("job", "q", late).lines[0] == "state     cancelled"
    lines = cli("job", "q", running).lines
    assert lines[0] == "state     running, to be cancelled"
    assert "progress  3 of 10, pages" in lines
    document = cli("job", "q", running, "--json").json
    assert document["is_cancelling"] is True
    assert document["progress"] == {"done": 3, "total": 10, "text": "pages"}
    again = cli("cancel", "q", late, "--json")
    assert (again.code, again.json) == (0, [{"id": late, "result": "cancelled"}])
