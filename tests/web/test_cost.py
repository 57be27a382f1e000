"""How many commands Redis gets from clients that wait."""

import asyncio

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from tests.scale import scaled
from tests.web.asgi import Http

#: The commands inside of a receive, and the one that counts.
_NOT_COUNTED = {"cmdstat_time", "cmdstat_hmget", "cmdstat_zrangebyscore", "cmdstat_info"}


def test_waiting_polls_cost_at_most_one_command_a_second_together(server, ns):
    seconds = scaled(2, 20)

    async def test():
        def count():
            stats = raw.info("commandstats")
            return sum(stats[each]["calls"] for each in stats.keys() - _NOT_COUNTED)

        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, auth=False))
            content = {"queues": ["q"], "wait": 60}
            polls = [
                asyncio.create_task(http("POST", "/receive", content))
                for _ in range(scaled(100, 1000))
            ]
            async with asyncio.timeout(40):  # first, each of them looks at the queue
                while True:
                    before = count()
                    await asyncio.sleep(seconds)
                    if count() - before <= seconds:
                        break
            assert not any(each.done() for each in polls)
            await queues.send_messages("q", map(str, range(len(polls))))
            replies = await asyncio.gather(*polls)
            bodies = [int(message["body"]) for each in replies for message in each.json["messages"]]
            assert sorted(bodies) == list(range(len(polls)))

    with server.raw() as raw:
        asyncio.run(test())


def test_a_list_of_messages_is_read_in_scripts_of_25(server, ns):
    """Each script is short, also if its messages are in memory that nobody has used for a while."""

    async def test():
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            await queues.create_queue("q")
            ids = await queues.send_messages("q", ["m"] * 60)
            http = Http(create_app(queues, auth=False))
            before = raw.info("commandstats").get("cmdstat_zrange", {"calls": 0})["calls"]
            shown = (await http("GET", "/queues/q/messages?limit=60")).json
            assert raw.info("commandstats")["cmdstat_zrange"]["calls"] - before == 3
            assert [each["id"] for each in shown["messages"]] == ids
            assert shown["scanned"] == 60

    with server.raw() as raw:
        asyncio.run(test())
