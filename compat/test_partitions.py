"""Partitions from Node and PHP: their names, the partition of a key, and messages in one."""

from __future__ import annotations

import json
import subprocess

import pytest

from compat.peers import Node, Php
from rsmq import Partitions
from rsmq.wire.partitions import partition_of_key
from tests.conftest import cluster  # noqa: F401 - a fixture
from tests.documents.pages import read_blocks
from tests.unit.test_partitions import OF_TWELVE

#: Keys whose hashes begin with a high and with a low bit, and such of several alphabets.
KEYS = [*OF_TWELVE, *(f"{letter}-{number}" for letter in "aé注😀" for number in range(50))]
_PRINT = {
    "js": "{code}\nconst found = {keys}.map(key => partitionOf(key, {count}));\n"
    "process.stdout.write(JSON.stringify(found));",
    "php": "{code}\necho json_encode(array_map(fn($key) => partition_of($key, {count}), {keys}));",
}
_PROGRAM = {"js": ["node", "-e"], "php": ["php", "-r"]}


@pytest.mark.parametrize("language", ["js", "php"])
@pytest.mark.parametrize("count", [1, 7, 12, 1000])
def test_the_function_of_the_page_finds_the_same_partitions(language, count):
    (block,) = [each for each in read_blocks("partitions.md") if each.language == language]
    keys = json.dumps(KEYS, ensure_ascii=False)
    program = _PRINT[language]
    for name, value in (("code", block.code), ("keys", keys), ("count", str(count))):
        program = program.replace(f"{{{name}}}", value)
    run = subprocess.run([*_PROGRAM[language], program], capture_output=True, check=True)
    assert json.loads(run.stdout) == [partition_of_key(key, count) for key in KEYS]


def test_clients_share_a_partition_on_a_server(peer, ns, keys, server):
    with Partitions.from_url(server.url, ns=ns, count=6) as partitions:
        partitions.create_queue("q")
        ours = partitions.client_for("customer-7")
        peer.ns = ours.namespace.name
        sent = peer.send_message("q", "theirs")
        message = ours.receive_message("q")
        assert (message.id, message.body) == (sent, "theirs")
        assert ours.delete_message(message)

        id = partitions.send_message("q", "ours", key="customer-7")
        received = peer.receive_message("q")
        assert (received["id"], received["message"]) == (id, "ours")
        assert peer.delete_message("q", received["id"])
        assert ours.count_messages("q").in_flight == 0
    peer.close_clients(peer.ns)
    keys.raw.unlink(*keys.raw.keys(f"{{{ns}.*"))


@pytest.mark.parametrize("kind", [Node, Php], ids=lambda kind: kind.name)
def test_producers_send_into_a_partition_on_a_cluster(kind, cluster, ns):  # noqa: F811 - the fixture
    """They are connected with the node that has the partition."""
    with Partitions.from_url(cluster.url, ns=ns, count=6) as partitions:
        partitions.create_queue("q")
        for client in partitions.clients:
            name = client.namespace.name
            producer = kind(cluster.node_of(name), name)
            sent = producer.send_message("q", f"to {name}")
            producer.close()
            message = client.receive_message("q")
            assert (message.id, message.body) == (sent, f"to {name}")
            client.delete_queue("q")
