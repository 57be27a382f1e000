"""Node's and PHP's clients as consumers of a schedule's messages, which are ordinary ones."""

from __future__ import annotations

import pytest

from compat.peers import Node, Php
from rsmq import JSON, RSMQ
from rsmq.schedules.scheduler import SchedulerThread
from tests.schedules.conftest import wait_until


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_another_client_receives_and_deletes_a_scheduled_message(kind, peers, server, ns, keys):
    peer = peers(kind)
    peer.ns = ns
    with RSMQ.from_url(server.url, ns=ns, codec=JSON) as queues:
        queues.create_queue("q")
        queues.schedules.add("a", every=0.1, queue="q", body={"n": 1}, tick_field="tick")
        thread = SchedulerThread(queues)
        thread.start()
        wait_until(lambda: queues.get_queue_attributes("q").messages)
        received = peer.receive_message("q")
        thread.stop()
        thread.join()
        queues.schedules.pause("a")
        tick = queues.get_message("q", received["id"]).scheduled_at
        assert received["message"].startswith('{"n":1,"tick":"' + tick.isoformat()[:19])
        assert peer.delete_message("q", received["id"])
        assert queues.get_message("q", received["id"]) is None
        assert queues.schedules.get("a").failure is None
        queues.schedules.remove("a")
        assert not [key for key in keys.raw.keys(f"{ns}:*") if b":x:" in key]
    peer.close_clients(ns)
