"""A namespace with an alert, a target that gets messages, and servers that send them."""

from __future__ import annotations

import asyncio
import json

from rsmq.explain.alerts.record_operations import set_target_in_steps
from rsmq.explain.alerts.sender import AlertSender
from rsmq.operations.plain import parse_fields, plain_command
from rsmq.webhooks.proxy import Reach

REACH = Reach.parse("127.0.0.0/8", True, None)


class AlertPlace:
    """
    The place.

    Attributes:
        sender: a server.
    """

    def __init__(self, queues, reach=REACH):
        self.queues, self.namespace = queues, queues.namespace
        self.sender = AlertSender(queues, reach)

    async def add_target(self, receiver, name="ops", format="webhook", secret_env=None):
        """Add a target: a receiver, or a URL."""
        url = receiver if isinstance(receiver, str) else receiver.url
        steps = set_target_in_steps(self.namespace, name, url, format, secret_env)
        return await self.queues.run_steps(steps)

    async def begin(self, *names):
        """Begin an alert of each queue: it is paused with a message."""
        for name in names:
            await self.queues.create_queue(name, exist_ok=True)
            await self.queues.send_message(name, "m")
            await self.queues.pause_queue(name)

    async def end(self, *names):
        """End these alerts."""
        for name in names:
            await self.queues.resume_queue(name)
            await self.queues.purge_queue(name)

    async def fields(self, part=""):
        """Return the stored fields of a part, as JSON where they are that."""
        found = await self.queues.run(plain_command("HGETALL", self.namespace.alerts))
        return {
            name.decode(): json.loads(value) if value.startswith(b"{") else value.decode()
            for name, value in parse_fields(found).items()
            if name.decode().startswith(part)
        }

    async def pass_time(self, seconds):
        """Move all stored times into the past, as if so many seconds had passed."""
        changed = []
        for name, value in (await self.fields()).items():
            if name == "step":
                ms, _, owner = value.partition(":")
                changed += [name, f"{int(ms) - seconds * 1000}:{owner}"]
            else:
                changed += [name, json.dumps(_earlier(value, seconds * 1000))]
        if changed:
            await self.queues.run(plain_command("HSET", self.namespace.alerts, *changed))

    async def step(self, seconds=15, sender=None):
        """Let time pass, and make a step."""
        await self.pass_time(seconds)
        await (sender or self.sender).step()


def _earlier(value, ms):
    if isinstance(value, dict):
        return {
            name: each - ms if name.endswith("_ms") and each else _earlier(each, ms)
            for name, each in value.items()
        }
    return value


def bodies_of(receiver):
    """Return the bodies of the requests, as JSON."""
    return [json.loads(each.body) for each in receiver.requests]


def events_of(receiver):
    """Return the event and the subject of each request of a webhook."""
    return [(each["type"], each["data"]["subject"]) for each in bodies_of(receiver)]


async def answered(receiver, number):
    """Wait until a receiver has so many requests."""
    while len(receiver.requests) < number:
        await asyncio.sleep(0.005)
