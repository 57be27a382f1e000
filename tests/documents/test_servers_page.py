"""The examples of docs/servers.md, on a real Redis Cluster and with real Sentinels."""

from __future__ import annotations

import re

import pytest

from tests.documents.pages import read_blocks

_URL = re.compile(r"redis\+(cluster|sentinel)://[^\"]+")


@pytest.mark.parametrize("block", read_blocks("servers.md"), ids=str)
def test_example_makes_a_client_that_works(block, cluster, sentinels):
    urls = {"cluster": cluster.url, "sentinel": sentinels.url}
    code, count = _URL.subn(lambda url: urls[url[1]], block.code)
    assert count == 1
    names = {}

    exec(code, names)

    with names["queues"] as queues:
        queues.create_queue("letters", exist_ok=True)
        id = queues.send_message("letters", "a")
        assert queues.pop_message("letters").id == id
        queues.delete_queue("letters")
