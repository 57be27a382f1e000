"""rsmq sweep-bodies."""

from __future__ import annotations

import pytest

from rsmq import JSON
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Stored

BODY = ["x" * 50] * 5


@pytest.fixture
def option(tmp_path, monkeypatch):
    (tmp_path / "stored_of_test.py").write_text(f"""
from obstore.store import LocalStore
from rsmq import JSON
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Compressed, Stored

codec = Stored(JSON, store=ObjectStore(LocalStore({str(tmp_path)!r}, mkdir=True)), above=20)
other = Compressed(JSON)
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    return ("--codec", "stored_of_test:codec")


def test_bodies_are_sent_shown_and_swept(cli, rsmq, raw, ns, option):
    from stored_of_test import codec

    rsmq.create_queue("q")
    kept, gone = (rsmq.send_message("q", BODY, codec=codec) for _ in range(2))
    assert cli("get", "q", kept, "--raw", *option).out == f"{JSON.encode(BODY)}\n"
    assert "stored elsewhere" in cli("peek", "q").out
    rsmq.delete_message("q", gone)

    assert isinstance(codec, Stored)
    assert isinstance(codec.store, ObjectStore)
    shown = cli("sweep-bodies", "--dry-run", *option).out
    assert shown == "2 objects: 1 in no message, 0 would be deleted\n"
    cli("sweep-bodies", *option)
    for name in raw.hkeys(f"{ns}:x:unused_bodies"):
        raw.hset(f"{ns}:x:unused_bodies", name, 1)
    assert cli("sweep-bodies", *option).out == "2 objects: 1 in no message, 1 deleted\n"
    places = [place for place, _ in codec.store.list(ns.encode())]
    assert sorted(places) == [f"{ns}:".encode(), f"{ns}:q".encode()]  # the first is the mark
    assert rsmq.receive_message("q", codec=codec).body == BODY


def test_it_needs_a_codec_that_stores(cli, option):
    for wrong in ((), ("--codec", "stored_of_test:other")):
        result = cli("sweep-bodies", *wrong)
        assert result.code == 2
        assert "must name a Stored" in result.stderr
