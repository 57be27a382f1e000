"""Node's client as the producer and a consumer of a level: it is an ordinary queue."""

from __future__ import annotations

from rsmq import RSMQ, level_queue
from rsmq.worker import Worker


def test_node_sends_to_a_level_and_receives_from_it(node, server, ns, keys):
    got = []
    with RSMQ.from_url(server.url, ns=ns) as queues:
        worker = Worker(queues)

        @worker.listener("mail", levels={"critical": 10}, create=True, retry_forever=True)
        def handle(body, message):
            got.append((message.queue, message.id, body))

        worker.start()
        worker.stop()  # the queues exist now
        sent = node.send_message("mail_critical", "from node")
        plain = node.send_message("mail", "plain")
        worker.run(until_empty=True)
        assert sorted(got) == [("mail", plain, "plain"), ("mail_critical", sent, "from node")]

        id = queues.send_message(level_queue("mail", "critical"), "to node")
        received = node.receive_message("mail_critical")
        assert (received["id"], received["message"]) == (id, "to node")
        assert node.delete_message("mail_critical", id)
    ours = {key.rpartition(b":x:")[2] for key in keys.raw.keys(f"{ns}:mail*") if b":x:" in key}
    assert ours == {b"calls", b"call_times"}
