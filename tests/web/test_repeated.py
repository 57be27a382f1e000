"""Sends that are repeated with their Idempotency-Key while replies of Redis get lost."""

import asyncio
import random
from collections import Counter

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.proxy import Proxy
from tests.scale import scaled
from tests.web.asgi import Http

_MAX_PEEK = 10_000


class _LossyProxy(Proxy):
    """
    Drops the reply of every tenth call, and its connection.

    Attributes:
        dropped: their number.
    """

    dropped = 0

    def _count_script(self):
        is_dropped = random.random() < 0.1
        self.dropped += is_dropped
        return is_dropped, False


def test_sends_that_are_repeated_with_keys_while_replies_get_lost_are_stored_once(server, ns):
    number = scaled(200, 10_000)
    proxy = _LossyProxy(server.port)
    numbers = iter(range(number))
    answers, statuses = {}, Counter()

    async def send(http):
        for each in numbers:
            headers = {"idempotency-key": f"order-{each}"}
            while each not in answers:
                reply = await http(
                    "POST", "/queues/q/messages", {"body": str(each)}, headers=headers
                )
                statuses[reply.status, reply.json.get("code")] += 1
                assert reply.status == 201 or reply.headers["retry-after"] == "1"
                if reply.status == 201:
                    answers[each] = reply.json["id"]

    async def test():
        async with (
            AsyncRSMQ.from_url(server.url, ns=ns) as direct,
            AsyncRSMQ.from_url(proxy.url, ns=ns, retry_deadline=0) as queues,
        ):
            await direct.create_queue("q")
            http = Http(create_app(queues, auth=False))
            await asyncio.gather(*(send(http) for _ in range(8)))
            assert (await direct.get_queue_attributes("q")).total_sent == number
            stored = await direct.peek_messages("q", 0, _MAX_PEEK)
            assert {int(each.body): each.id for each in stored} == answers
            assert len(stored) == number

    asyncio.run(test())
    proxy.close()
    assert statuses[503, "outcome-unknown"] > 0
    print(statuses, proxy.dropped)
