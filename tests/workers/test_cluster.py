"""Workers on a Redis Cluster."""

from __future__ import annotations

import time

from redis.cluster import RedisCluster

from rsmq import RSMQ
from rsmq.worker import Worker, list_workers
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until


def test_worker_on_cluster_handles_retries_and_dead_letters(cluster_server):
    client = RedisCluster(host="127.0.0.1", port=cluster_server.port)
    rsmq = RSMQ(client, ns="{workers}")
    worker = Worker(rsmq, name="w")
    handled = []

    @worker.listener("q", max_retries=1, backoff=0.01, dead_letter_queue="dead", create=True)
    def handle(body):
        if body == "bad":
            raise ValueError(body)
        handled.append(body)

    with worker:
        rsmq.send_messages("q", ["a", "bad", "b"])
        deadline = time.monotonic() + WAIT_SECONDS
        while worker.numbers.handled + worker.numbers.dead < 3:
            assert time.monotonic() < deadline, worker.numbers
            time.sleep(0.01)
        assert [each.name for each in list_workers(rsmq)] == ["w"]

    assert sorted(handled) == ["a", "b"]
    assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: bad"
    assert client.keys("{workers}:x:held:*", target_nodes=RedisCluster.ALL_NODES) == []
    client.close()


def test_worker_started_while_a_node_has_too_many_clients_handles_messages_later(cluster_server):
    with (
        cluster_server.raw() as raw,
        RSMQ.from_url(f"redis+cluster://127.0.0.1:{cluster_server.port}", ns="{full}") as rsmq,
    ):
        rsmq.create_queue("q")
        limit = raw.config_get("maxclients")["maxclients"]
        refused = raw.info("stats")["rejected_connections"]
        handled = []
        worker = Worker(rsmq)
        worker.listener("q", retry_forever=True)(handled.append)
        raw.config_set("maxclients", 1)  # the connection of this thread stays open
        try:
            with worker:
                wait_until(lambda: raw.info("stats")["rejected_connections"] > refused + 2)
                raw.config_set("maxclients", limit)
                rsmq.send_message("q", "m")
                wait_until(lambda: handled == ["m"])
                wait_until(lambda: raw.zcard("{full}:q") == 0)
        finally:
            raw.config_set("maxclients", limit)
            raw.delete(*raw.keys("{full}:*"))
