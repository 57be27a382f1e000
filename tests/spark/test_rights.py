"""The rights that a user of Redis needs for Spark, according to docs/security.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgpack import packb

from rsmq import RSMQ
from tests.contract.conftest import ADMIN
from tests.spark.conftest import columns

TEXT = columns(message="string")
SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


@pytest.mark.parametrize("missing", [None, "+hscan"])
def test_documented_rights_are_sufficient(env, tmp_path, missing):
    """Without +hscan, expired queries are deleted only with their key."""
    (row,) = re.findall(r"^\| Spark, .*?\| (.*) \|$", SECURITY, re.MULTILINE)
    rules = {*re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))} - {missing}
    env.raw.hset(f"{env.ns}:x:acked", mapping=dict.fromkeys(range(200), packb([1, "", 2**50])))
    env.raw.execute_command(
        "ACL", "SETUSER", "spark", "on", ">secret", f"~{env.ns}:*", f"&{env.ns}:rt:*", "-@all",
        *ADMIN.split(), "+publish", "+client|tracking", *rules,
    )  # fmt: skip
    secret = tmp_path / "secret"
    secret.write_text("secret")
    user = {"username": "spark", "passwordFile": str(secret)}
    with RSMQ.from_url(env.redis.url, ns=env.ns) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["a", "b"])

    assert len(env.read(queue="q", **user)) == 2
    env.write(TEXT, delivery="exactly-once", realtime=True, **user).run([{"message": "c"}])
    env.write(TEXT, createQueue=True, queue="made", **user).run([{"message": "d"}])
    query = env.query(queue="q", consumerGroup="group", **user)
    assert [len(rows) for rows in query.run_until_empty()] == [3]
    assert env.scores() == {}
    query.reader.stop()
    assert env.raw.hkeys(env.keys().calls) == [b"Spark stream group"]

    kinds = {"group": "string", "dedup_id": "string", "expires": "double", "track": "boolean"}
    row = {"message": "e", "group": "g", "dedup_id": "e", "expires": 900.0, "track": True}
    env.write(columns(message="string", **kinds), delivery="exactly-once", **user).run([row])
    (read,) = env.read(queue="q", columns="state,track,group,expires_at", **user)
    assert (read["state"], read["track"], read["group"]) == ("visible", True, "g")
    rows = env.query(queue="q", groups="together", **user).run_until_empty()
    assert [len(each) for each in rows] == [1]
    assert env.scores() == {}
    env.raw.execute_command("ACL", "DELUSER", "spark")
