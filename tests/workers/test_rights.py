"""The rights that a Redis user needs for workers, as docs/security.md lists them."""

from __future__ import annotations

import re
import time
from pathlib import Path

from rsmq import RSMQ
from rsmq.worker import Worker, list_workers
from tests.contract.conftest import ADMIN
from tests.scale import WAIT_SECONDS

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def test_documented_rights_are_sufficient(server, caplog):
    (row,) = re.findall(r"^\| workers, .*?\| (.*) \|$", SECURITY, re.MULTILINE)
    rules = re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))
    with server.raw() as raw:
        raw.execute_command(
            "ACL", "SETUSER", "worker", "on", ">secret", "~rights:*", "-@all", *ADMIN.split(),
            "+client|tracking", *rules,
        )  # fmt: skip
        rsmq = RSMQ.from_url(f"redis://worker:secret@127.0.0.1:{server.port}/0", ns="rights")
        worker = Worker(rsmq, name="w")

        @worker.listener(
            "q", vt=1, max_retries=1, backoff=0.01, dead_letter_queue="dead", create=True
        )
        def handle(body, message):
            if body == "slow":
                time.sleep(1)
            if body == "bad":
                raise ValueError(body)

        worker.start()
        rsmq.send_messages("q", ["good", "bad", "slow"])
        deadline = time.monotonic() + WAIT_SECONDS
        while worker.numbers.handled + worker.numbers.dead < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [each.name for each in list_workers(rsmq)] == ["w"]
        worker.stop()

        assert rsmq.peek_messages("dead")[0].reason.exception == "ValueError: bad"
        assert len(rsmq.redrive_messages("dead", "q")) == 1
        assert raw.hgetall("rights:dead:x:reasons") == {}
        assert not any("NOPERM" in line or "continues to try" in line for line in caplog.messages)
        raw.execute_command("ACL", "DELUSER", "worker")
