"""
The cost of compressed, encrypted and stored bodies, by size.

    python -m scripts.benchmark.bodies [--stored] [--rounds N] [--count N]

A round sends, receives, decodes and deletes messages with each codec, in random order, so that
other load affects all codecs equally. It prints medians of the processor time of a message, of the
client and of the server, and the bytes that the body has in Redis. With ``--stored`` the bodies are
larger, and those of the codec ``stored`` are in a local folder: no network is measured; the bytes
are those by which a message grows the memory of Redis.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from typing import Any

from obstore.store import LocalStore

from rsmq import JSON, RSMQ
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Codec, Compressed, Encrypted, Stored
from scripts.benchmark.server import Server

SIZES = (500, 2_000, 10_000, 100_000)
LARGE_SIZES = (10_000, 100_000, 1_000_000)
_KEYS = {"k1": bytes(range(32))}
CODECS: dict[str, Codec] = {
    "plain": JSON,
    "zlib": Compressed(JSON, above=0, method="zlib"),
    "zstd": Compressed(JSON, above=0, method="zstd"),
    "encrypted": Encrypted(JSON, keys=_KEYS),
    "zstd, encrypted": Encrypted(Compressed(JSON, above=0, method="zstd"), keys=_KEYS),
}
_NAMES = ("Anna", "Bernd", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hugo")


def make_body(size: int) -> list[dict[str, Any]]:
    """Return lines of an order, whose JSON has about so many bytes."""
    chance = random.Random(size)  # noqa: S311 - no secret
    lines: list[dict[str, Any]] = []
    while len(json.dumps(lines)) < size:
        lines.append(
            {
                "article": f"{chance.getrandbits(40):010x}",
                "customer": f"{chance.choice(_NAMES)} {chance.choice(_NAMES)}",
                "amount": round(chance.random() * 1000, 2),
                "is_gift": chance.choice((True, False, False)),
            }
        )
    return lines


def make_stored(folder: str) -> dict[str, Codec]:
    """Return the codecs that are compared with a store, which is a folder."""
    store = ObjectStore(LocalStore(folder))
    return {
        "plain": JSON,
        "zstd": CODECS["zstd"],
        "stored": Stored(JSON, store=store, above=0),
        "zstd, stored": Stored(CODECS["zstd"], store=store, above=0),
    }


def measure(server: Server, rsmq: RSMQ[Any], codec: Codec, body: Any, count: int) -> list[float]:
    """
    Return the microseconds of client and server for a message, the bytes of its body in Redis, and
    those by which it grows the memory.
    """
    server.client.flushdb()
    rsmq.create_queue("bench", maxsize=-1)
    empty = server.client.info("memory")["used_memory"]
    client_begin, server_begin = time.process_time(), server.cpu_seconds()
    for _ in range(count):
        rsmq.send_message("bench", body, codec=codec)
    size = len(rsmq.peek_messages("bench", 0, 1)[0].raw)
    grown = (server.client.info("memory")["used_memory"] - empty) / count
    for _ in range(count):
        message = rsmq.receive_message("bench", codec=codec)
        if message is None or message.body != body:
            raise AssertionError("a body did not arrive")
        rsmq.delete_message(message)
    client, of_server = time.process_time() - client_begin, server.cpu_seconds() - server_begin
    return [client / count * 1e6, of_server / count * 1e6, size, grown]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=200, help="messages of a round")
    parser.add_argument("--stored", action="store_true", help="compare with a store")
    arguments = parser.parse_args()
    print("| JSON | codec | client | server | in Redis |\n|---|---|---|---|---|")
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        rsmq = RSMQ.from_url(f"redis://127.0.0.1:{server.port}/0")
        codecs = make_stored(folder) if arguments.stored else CODECS
        for size in LARGE_SIZES if arguments.stored else SIZES:
            body = make_body(size)
            found: dict[str, list[list[float]]] = {name: [] for name in codecs}
            for _ in range(arguments.rounds):
                for name in random.sample(list(codecs), len(codecs)):
                    found[name].append(measure(server, rsmq, codecs[name], body, arguments.count))
            for name, rounds in found.items():
                medians = [statistics.median(each) for each in zip(*rounds, strict=True)]
                client, of_server, stored, grown = medians
                shown = grown if arguments.stored else stored
                print(
                    f"| {size:,} | {name} | {client:.0f} µs | {of_server:.0f} µs | {shown:,.0f} |"
                )


if __name__ == "__main__":
    main()
