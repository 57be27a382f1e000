"""Programs that are killed at any moment: no message loses its body, and no object is left."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

from rsmq.body_stores import sweep_bodies
from rsmq.trash import DeletionState
from tests.body_stores.random_program import QUEUES, make_codec
from tests.s3 import s3_server
from tests.scale import scaled

PROGRAMS = 3
KILLS = scaled(6, 100)
#: By now a program may be in any step; the time needs not be exact.
MAX_LIFE_SECONDS = 3.0
LONG_AGO = 1_000_000


def start(server, ns, settings, seed, log):
    command = [sys.executable, "-m", "tests.body_stores.random_program"]
    arguments = [server.url, ns, json.dumps(settings), str(seed)]
    with log.open("w") as stderr:
        return subprocess.Popen([*command, *arguments], stderr=stderr)


def references(raw, ns):
    """Return the names of objects in all keys of the namespace."""
    names = set()
    for key in raw.scan_iter(f"{ns}:*"):
        if raw.type(key) == b"hash":
            for value in raw.hvals(key):
                names |= {each[:32].decode() for each in value.split(b"stored=")[1:]}
    return names


def test_kills_leave_no_message_without_its_body_and_no_object_without_a_message(
    rsmq, raw, ns, server, tmp_path
):
    chance, logs = random.Random(1), [tmp_path / str(at) for at in range(PROGRAMS)]
    with s3_server() as settings:
        codec = make_codec(settings)
        for name in QUEUES:
            rsmq.create_queue(name)
        programs = [start(server, ns, settings, at, logs[at]) for at in range(PROGRAMS)]
        try:
            for kill in range(KILLS):
                time.sleep(chance.uniform(0.2, MAX_LIFE_SECONDS))
                at = chance.randrange(PROGRAMS)
                assert programs[at].poll() is None, logs[at].read_text()
                programs[at].kill()
                programs[at].wait()
                programs[at] = start(server, ns, settings, PROGRAMS * (kill + 1) + at, logs[at])
                sweep_bodies(rsmq, codec.store, grace=60)
        finally:
            for program in programs:
                program.kill()
                program.wait()

        # A killed program may have left an undo half done, during which no sweep deletes anything.
        for each in rsmq.trash.list():
            if each.state == DeletionState.UNDOING:
                rsmq.trash.undo(each.id)
        used = references(raw, ns)
        stored = {name: place for place, name in codec.store.list(ns.encode())}
        assert used <= stored.keys()
        for name in QUEUES:
            messages = rsmq.peek_messages(name, 0, 10_000, codec=codec)
            assert all(each.body for each in messages[:100])
            reasons = [each.reason for each in messages if each.reason is not None]
            assert not any("missing" in str(each.exception) for each in reasons)
        for _ in range(2):  # the first one notes the last objects
            sweep_bodies(rsmq, codec.store, grace=60)
            for key in raw.hkeys(f"{ns}:x:unused_bodies"):
                raw.hset(f"{ns}:x:unused_bodies", key, LONG_AGO)
        sweep_bodies(rsmq, codec.store, grace=60)
        left = {name for place, name in codec.store.list(ns.encode()) if place != f"{ns}:".encode()}
        assert left == references(raw, ns)
        print(f"{KILLS} kills, {len(stored)} objects, {len(left)} in messages")
