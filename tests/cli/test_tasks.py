"""``rsmq tasks``."""

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
