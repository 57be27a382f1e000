"""Node's client sends tasks, and reads those that Python has sent: they are ordinary messages."""

from __future__ import annotations

import json

from rsmq import JSON, RSMQ
from rsmq.codecs import EnvelopeCodec
from rsmq.headers import current_headers, use_headers
from rsmq.tasks import Tasks
from tests.scale import WAIT_SECONDS


def test_node_sends_a_task_and_receives_one(node, server, ns):
    with Tasks.from_url(server.url, ns=ns) as tasks:
        ran = []

        @tasks.task(queue="mail", name="mail.welcome")
        def welcome(user_id: int, language: str = "en") -> None:
            ran.append((user_id, language))

        node.create_queue("mail")
        node.send_message("mail", '{"task": "mail.welcome", "args": {"user_id": 17}}')
        node.send_message("mail", '{"task": "mail.farewell"}')
        tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
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


def test_node_sends_a_task_and_reads_its_result(node, server, ns):
    with Tasks.from_url(server.url, ns=ns) as tasks:

        @tasks.task(queue="invoices", name="invoices.total", track=True, result_ttl=60)
        def total(prices: list[int], currency: str = "EUR") -> dict[str, object]:
            if not prices:
                raise ValueError("no prices")
            return {"total": sum(prices), "currency": currency}

        node.create_queue("invoices")
        good, wrong, unknown = (
            node.send_message("invoices", json.dumps(body))
            for body in (
                {"task": "invoices.total", "args": {"prices": [3, 4]}},
                {"task": "invoices.total", "args": {"prices": "3"}},
                {"task": "invoices.sum"},
            )
        )
        assert node.request("job", qname="invoices", id=good) is None
        tasks.worker(name="w").run(until_empty=True, timeout=WAIT_SECONDS)

        record = node.request("job", qname="invoices", id=good)
        assert (record["state"], record["attempt"], record["worker"]) == ("succeeded", "1", "w")
        assert json.loads(record["result"]) == {"total": 7, "currency": "EUR"}
        assert int(record["begun"]) <= int(record["ended"])
        failed = node.request("job", qname="invoices", id=wrong)
        assert (failed["state"], "result" in failed) == ("failed", False)
        assert "prices is not valid" in failed["error"]
        assert (
            "no task 'invoices.sum'" in node.request("job", qname="invoices", id=unknown)["error"]
        )
        # The same job by the id that Node has.
        assert tasks.client.job("invoices", good).result()["total"] == 7


def test_node_reads_and_writes_headers(node, server, ns):
    queues = RSMQ.from_url(server.url, ns=ns, codec=EnvelopeCodec(JSON))
    node.create_queue("orders")
    with use_headers({"request_id": "größer"}):
        queues.send_message("orders", {"number": 1})
    assert json.loads(node.receive_message("orders")["message"]) == {
        "headers": {"request_id": "größer"},
        "body": {"number": 1},
    }

    node.send_message("orders", '{"body": {"number": 2}, "headers": {"request_id": "node"}}')
    message = queues.receive_message("orders")
    assert (message.body, message.headers) == ({"number": 2}, {"request_id": "node"})
    queues.close()

    with Tasks.from_url(server.url, ns=ns) as tasks:
        seen = []

        @tasks.task(queue="mail", name="mail.welcome")
        def welcome() -> None:
            seen.append(dict(current_headers()))

        node.create_queue("mail")
        node.send_message("mail", '{"headers": {"request_id": "node"}, "task": "mail.welcome"}')
        tasks.run_all()
    assert seen == [{"request_id": "node"}]
