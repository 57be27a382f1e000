"""A program with stored bodies that acts at random until it is killed."""

from __future__ import annotations

import json
import random
import sys
from contextlib import suppress

from obstore.store import S3Store

from rsmq import JSON, RSMQ, BodyNotDecodable, BodyUnavailable, RSMQError
from rsmq.body_stores import ObjectStore
from rsmq.codecs import Stored
from rsmq.worker import Worker
from tests.s3 import BUCKET

QUEUES = ("q", "other", "dead")
_BODY = ["x" * 50] * 5


def make_codec(settings):
    """Return the codec of the programs, for the environment variables of a server of S3."""
    bucket = S3Store(
        BUCKET, endpoint=settings["AWS_ENDPOINT_URL"], region="us-east-1",
        access_key_id="test", secret_access_key="test", client_options={"allow_http": True},
    )  # fmt: skip
    return Stored(JSON, store=ObjectStore(bucket), above=20)


def act(queues, chance):
    """Do one thing."""
    source, target = chance.sample(QUEUES[:2], 2)
    match chance.randrange(9):
        case 0 | 1:
            queues.send_message(source, _BODY)
        case 2:
            queues.send_message(source, _BODY, dedup_id=str(chance.randrange(5)), dedup_window=2)
        case 3:
            options = {"unique_keys": [str(chance.randrange(5)) for _ in range(3)]}
            queues.send_messages(source, [_BODY] * 3, **options, replace=chance.random() < 0.5)
        case 4:
            queues.publish(QUEUES[:2], _BODY)
        case 5:
            queues.delete_messages(queues.receive_messages(source, 3, vt=2))
        case 6:
            queues.move_messages(queues.receive_messages(source, 2, vt=2), target)
        case 7:
            queues.pop_messages(source, 2)
        case 8:
            ids = [each.id for each in queues.peek_messages(source, 0, 5)]
            deletion = queues.trash.delete_messages(source, ids)
            if deletion.id and chance.random() < 0.7:
                queues.trash.undo(deletion.id)
            queues.redrive_messages("dead", source, 3)


def run_worker(queues, chance):
    """Handle messages; some fail."""

    def handle(body):
        if chance.random() < 0.3:
            raise ValueError("at random")

    worker = Worker(queues)
    for name in QUEUES[:2]:
        worker.listener(
            name, vt=2, max_retries=1, backoff=[0.1], dead_letter_queue="dead", concurrency=2
        )(handle)
    worker.run()


def main(url, ns, settings, seed):
    chance = random.Random(seed)
    with RSMQ.from_url(url, ns=ns, codec=make_codec(json.loads(settings))) as queues:
        if int(seed) % 3 == 0:
            run_worker(queues, chance)
        while True:
            with suppress(RSMQError, BodyNotDecodable, BodyUnavailable):
                act(queues, chance)


if __name__ == "__main__":
    main(*sys.argv[1:])
