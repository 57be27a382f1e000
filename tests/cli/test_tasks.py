"""``rsmq tasks`` and ``rsmq mark``."""

from __future__ import annotations

from rsmq.tasks import Tasks


def test_the_tasks_of_queues_are_a_table_or_json(cli, rsmq):
    tasks = Tasks(rsmq)

    @tasks.task(queue="orders", name="mail")
    def mail():
        pass

    assert len(cli("tasks").lines) <= 1
    mail.send()
    tasks.worker().run(until_empty=True)
    heading, row = cli("tasks", "orders").lines
    assert heading.split()[:4] == ["TASK", "QUEUE", "CALLS/MIN", "CALLS"]
    assert row.split()[:2] == ["mail", "orders"]
    assert row.split()[3:8] == ["1", "0", "0", "0", "0"]
    (found,) = cli("tasks", "ord*", "--span", "7d", "--json").json
    assert (found["task"], found["calls"], len(found["calls_by_step"])) == ("mail", 1, 28)
    assert found["duration"]["p50"] > 0
    assert cli("tasks", "--span", "2h").code != 0


def test_a_moment_is_marked(cli, rsmq, raw, ns):
    id = cli("mark", "v2.3", "--by", "ci").out.strip()
    assert cli("mark", "v2.4", "--json").json["name"] == "v2.4"
    [(first, mark), (_, other)] = raw.xrange(f"{ns}:x:audit")
    assert first.decode() == id
    assert (mark[b"target"], mark[b"user"], mark[b"call"]) == (b"v2.3", b"ci", b"POST /marks")
    assert other[b"user"] == b""
    assert cli("mark", "a" * 129).code != 0
