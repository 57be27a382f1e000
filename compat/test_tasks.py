"""Node's client sends tasks, and reads those that Python has sent: they are ordinary messages."""

from __future__ import annotations

import json

from rsmq.tasks import Tasks


def test_node_sends_a_task_and_receives_one(node, server, ns):
    with Tasks.from_url(server.url, ns=ns) as tasks:
        ran = []

        @tasks.task(queue="mail", name="mail.welcome")
        def welcome(user_id: int, language: str = "en") -> None:
            ran.append((user_id, language))

        node.create_queue("mail")
        node.send_message("mail", '{"task": "mail.welcome", "args": {"user_id": 17}}')
        node.send_message("mail", '{"task": "mail.farewell"}')
        tasks.worker().run(until_empty=True, timeout=30)
        assert ran == [(17, "en")]
        dead = node.receive_message("mail-dead")
        assert dead["message"] == '{"task": "mail.farewell"}'

        job = welcome.send(18, language="größer")
        received = node.receive_message("mail")
        assert received["id"] == job.id
        assert json.loads(received["message"]) == {
            "task": "mail.welcome",
            "args": {"user_id": 18, "language": "größer"},
        }
        assert node.delete_message("mail", received["id"])
        tasks.run_all()
        assert len(ran) == 1
