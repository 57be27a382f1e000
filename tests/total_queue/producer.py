"""
A program that sends numbered messages until SIGTERM, and records each call in its ledger.

    python -m tests.total_queue.producer URL NAMESPACE LEDGER sync|asyncio MIN_REPLICAS SEED

Half of the messages are plain, a quarter are confirmed by replicas, and a quarter are confirmed and
have a dedup_id. Only these last are sent again after an error.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from rsmq import RSMQ, AsyncRSMQ, Confirm, NotReplicated
from tests.crowd import AwaitedClient
from tests.total_queue.ledger import LedgerFile

PLAIN, CONFIRMED, DEDUPLICATED = "plain", "confirmed", "confirmed, dedup_id"

_TASKS = 4
_PAUSE_SECONDS = 0.002
#: A message with a dedup_id is given up after so many calls.
_MAX_CALLS = 50


class Producer:
    """
    A process that sends.

    Attributes:
        stops: whether it ends.
    """

    def __init__(self, ledger: LedgerFile, name: str, replicas: int, seed: str) -> None:
        self.stops = False
        self._ledger = ledger
        self._name = name
        self._replicas = replicas
        self._seed = seed

    def stop(self, *_: object) -> None:
        self.stops = True

    async def run(self, client: RSMQ | AsyncRSMQ, task: int) -> None:
        """Send until it stops; with a synchronous client this never suspends."""
        awaited = AwaitedClient(client)
        chance = random.Random(f"{self._seed} {task}")
        for number in itertools.count():
            if self.stops:
                return
            promise = chance.choice([PLAIN, PLAIN, CONFIRMED, DEDUPLICATED])
            body = f"{self._name}-{task}-{number}"
            options: dict[str, Any] = {}
            if promise is not PLAIN:
                options["confirm"] = Confirm(replicas=self._replicas)
            if promise is DEDUPLICATED:
                options["dedup_id"] = body
            for _ in range(_MAX_CALLS if promise is DEDUPLICATED else 1):
                begin = time.time()
                id, outcome = await _send(awaited, body, options)
                self._ledger.write(
                    call="send", body=body, promise=promise, id=id, outcome=outcome, begin=begin,
                    end=time.time(), server=str(client._caller.address_of(b"")),
                )  # fmt: skip
                if outcome == "acknowledged":
                    break
            await awaited.sleep(_PAUSE_SECONDS)

    async def run_tasks(self, make_client: partial[AsyncRSMQ]) -> None:
        async with make_client() as client:
            await asyncio.gather(*(self.run(client, task) for task in range(_TASKS)))


async def _send(
    client: AwaitedClient, body: str, options: dict[str, Any]
) -> tuple[str | None, str]:
    """Return the id and the outcome of one call."""
    try:
        return await client.send_message("q", body, **options), "acknowledged"
    except NotReplicated as error:
        return error.result, f"NotReplicated: {error.value}"
    except RedisError as error:
        return None, f"{type(error).__name__}: {error}"


def main(url: str, ns: str, path: str, kind: str, replicas: str, seed: str) -> None:
    """Send until SIGTERM."""
    producer = Producer(LedgerFile(Path(path)), Path(path).stem, int(replicas), seed)
    signal.signal(signal.SIGTERM, producer.stop)
    if kind == "asyncio":
        asyncio.run(producer.run_tasks(partial(AsyncRSMQ.from_url, url, ns=ns)))
        return
    with RSMQ.from_url(url, ns=ns) as client:
        try:
            producer.run(client, 0).send(None)
        except StopIteration:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
