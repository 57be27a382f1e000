"""
A namespace that is full of a few texts: as bodies, ids and names, in errors, reasons, schedules,
webhooks and the audit, by the API and in raw keys, as other clients may have written them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rsmq import BYTES, RSMQ, TEXT
from rsmq.history.operations import record_minute
from rsmq.jobs.flows.operations import FlowNode, FlowPlan, send_flow
from rsmq.trash.operations import purge_to_trash
from rsmq.web.bulk.records import OperationKind, begin_operation
from rsmq.wire.ids import make_flow_id

#: Valid as names and as ids.
PLAIN = (
    "orders-of-the-european-shop", "mails-to-all-customers-1", "thumbnails-of-new-pictures",
)  # fmt: skip
_TOKEN = "0123456789abcdef"
_SOON_MS = 600_000
_MAX_NAME = 300


@dataclass
class Planting:
    """
    What is planted.

    Attributes:
        texts: whatever is a text gets each of these.
        bodies: the bodies of the queue ``bodies``.
        is_odd: whether schedules, webhooks and queues get texts that these can't have.
    """

    server: object
    ns: str
    texts: Sequence[str] = PLAIN
    bodies: Sequence[bytes] = (b'{"customer": {"name": "anna"}, "total": 17.50}', b"text", b"\xff")
    is_odd: bool = False

    def plant(self):
        """Plant all; return the names that paths of pages may have, in sets that fit."""
        self.names = [each for each in self.texts if len(each) < _MAX_NAME]
        with (
            RSMQ.from_url(self.server.url, ns=self.ns, codec=BYTES, strict_names=False) as queues,
            self.server.raw() as raw,
        ):
            self.queues, self.raw = queues, raw
            self.now = int(raw.time()[0]) * 1000
            for name in ("bodies", "dead", "failing", "jobs"):
                queues.create_queue(name, maxsize=-1)
            self.flow = self._flow()
            ids = queues.send_messages("bodies", self.bodies)
            queues.receive_messages("bodies", 1, vt=600)
            queues.send_message("bodies", b"later", delay=600)
            found = [("bodies", ids), *self._messages()]
            self._workers()
            self._schedules()
            self._webhooks()
            self._alerts()
            self._audit()
            self._trash()
            operation = self._operations()
            raw.hset(self._key("bodies:x:unique"), mapping=dict.fromkeys(self.names, ids[0]))
            for minute in range(self.now // 60_000 - 2, self.now // 60_000 + 1):
                queues.send_message("bodies", b"more")
                queues.run(
                    record_minute(queues.namespace, minute, queues.list_queues(), is_last=True)
                )
        others = {
            "worker": self.names[0], "schedule": "schedule0", "subscriber": "subscriber0",
            "operation": operation, "flow": self.flow,
        }  # fmt: skip
        return [{"queue": queue, "id": id, **others} for queue, ids in found for id in ids]

    def _key(self, name):
        return f"{self.ns}:{name}".encode(errors="surrogateescape")

    def _messages(self):
        yield "dead", self._reasons()
        yield "failing", self._errors()
        yield "jobs", self._jobs()
        for name in self._odd_queues():
            yield name, [name]

    def _reasons(self):
        ids = self.queues.send_messages("dead", [self._body_of_node()] * len(self.texts))
        for id, text in zip(ids, self.texts, strict=True):
            reason = {
                "queue": text, "text": text, "exception": f"{text}: {text}", "worker": text,
                "traceback": f'Traceback\n  File "{text}", line 1, in {text}\n{text}: {text}\n',
                "attempts": 3,
            }  # fmt: skip
            self.raw.hset(self._key("dead:x:reasons"), id, f"{self.now}:{json.dumps(reason)}")
        self.queues.set_dead_letter_policy("failing", "dead", 9)
        self.queues.pause_queue("failing")
        return ids[:3]

    def _errors(self):
        ids = self.queues.send_messages("failing", [self._body_of_node()] * len(self.texts))
        self.queues.receive_messages("failing", len(ids), vt=600)
        created = self.raw.hget(self._key("failing:Q"), "created")
        errors = {id: f"1:{text[:400]}: a" for id, text in zip(ids, self.texts, strict=True)}
        self.raw.hset(self._key("failing:x:retrying"), mapping={"": created, **errors})
        return ids[:3]

    def _jobs(self):
        ids = self.queues.send_messages("jobs", [b"job"] * len(self.texts), track=True)
        for id, text in zip(ids, self.texts, strict=True):
            fields = {
                "worker": text, "error": text[:500], "text": text[:500], "done": "1", "total": "3",
                "result": json.dumps({text: text}), "state": "failed", "ended": self.now,
            }  # fmt: skip
            self.raw.hset(self._key(f"jobs:x:job:{id}"), mapping=fields)
        return ids[:3]

    def _flow(self):
        """Send a flow whose nodes have the texts as names of tasks and as errors."""
        with RSMQ.from_url(self.server.url, ns=self.ns) as queues:
            id = make_flow_id(None)
            nodes = [
                FlowNode(
                    "bodies",
                    b'{"task":%b,"flow":{"id":"%b"}}' % (json.dumps(text).encode(), id.encode()),
                    1,
                    range(number),
                    (),
                )
                for number, text in enumerate(self.texts)
            ]
            queues.run(send_flow(queues.namespace, FlowPlan(id, nodes), realtime=False))
            for number, text in enumerate(self.texts):
                self.raw.hset(queues.namespace.flow(id), f"{number}:e", text[:500])
        return id

    def _body_of_node(self):
        return b'{"flow":{"id":"%b"}}' % self.flow.encode()

    def _odd_queues(self):
        """Make a queue of each name, with a message that has the name as its id."""
        seconds = self.now // 1000
        for name in self.names:
            self.raw.sadd(self._key("QUEUES"), name)
            fields = {
                "vt": 30, "delay": 0, "maxsize": 65536, "totalsent": 1, "totalrecv": 0,
                "created": seconds, "modified": seconds, "x:dlq": "dead", "x:max": 3,
                name: f"body of {name}", f"{name}:rc": 2, f"{name}:fr": self.now,
            }  # fmt: skip
            self.raw.hset(self._key(f"{name}:Q"), mapping=fields)
            self.raw.zadd(self._key(name), {name: self.now})
        if self.is_odd:
            self.raw.sadd(self._key("QUEUES"), "broken", b"\xff\xfe<x-hostile>")
            broken = dict.fromkeys(("vt", "delay", "maxsize", "created", "x:dlq"), "<x-hostile>")
            self.raw.hset(self._key("broken:Q"), mapping=broken)
        return self.names

    def _workers(self):
        for at, name in enumerate(self.names):
            until = self.now + _SOON_MS * (-1 if at % 2 else 1)
            info = {
                "host": name, "pid": 1, "place": name, "born": name, "since_ms": self.now,
                "queues": {name: 1, "bodies": 1}, "handled": 1, "failed": 1,
            }  # fmt: skip
            self.raw.hset(self._key("x:workers"), name, f"{until}:{_TOKEN}:{json.dumps(info)}")
            self.raw.hset(self._key(f"x:held:{name}"), mapping={"": _TOKEN, name: f"1:{name}"})

    def _schedules(self):
        self.queues.schedules.add("schedule", every=3600, queue="bodies", body=b"a")
        key = self._key("x:schedules")
        model = json.loads(self.raw.hget(key, "schedule"))
        for at, text in enumerate(self.names):
            odd = {**model, "body": text, "queue": text}
            if self.is_odd and at % 3 == 2:
                odd |= {"cron": text, "timezone": text, "source": text}
            own = text if self.is_odd and at % 2 else f"schedule{at}"
            at_ms = self.now + 3_600_000 * (1 if at else -1)
            state = {
                "tick": at_ms, "last": f"{self.now} {self.now} -",
                "failure": f"{self.now} 3 {text}",
            }  # fmt: skip
            fields = {f"{own}:{name}": value for name, value in state.items()}
            self.raw.hset(key, mapping={own: json.dumps(odd), **fields})
            self.raw.zadd(self._key("x:due"), {own: at_ms})

    def _webhooks(self):
        self.raw.hset(self._key("x:subscribers"), "", self.now * 1000)
        for at, text in enumerate(self.names):
            url = text if self.is_odd else f"https://crm.example/{text}"
            entry = {"created": self.now, "url": url}
            if self.is_odd:
                entry |= {"secret_env": text, "content_type": text}
            name = text if self.is_odd and at % 2 else f"subscriber{at}"
            self.raw.hset(self._key("x:subscribers"), f"bodies/{name}", json.dumps(entry))
            self.queues.create_queue(f"bodies-{name}")
            state = {
                "queue": text, "url": url, "state": "open", "failures": 2, "openings": 1,
                "until_ms": self.now, "owner": text, "answer": text,
            }  # fmt: skip
            self.raw.hset(self._key("x:push"), f"{at:032x}", json.dumps(state))

    def _alerts(self):
        for at, text in enumerate(self.names):
            name = text if self.is_odd else f"target{at}"
            url = text if self.is_odd else f"https://alerts.example/{text}"
            times = {"created_ms": self.now, "until_ms": self.now + 3_600_000}
            target = {"url": url, "format": text, "secret_env": text, "created_ms": self.now}
            status = {"answer": text, "answered_ms": self.now, "failures": 5, "lost": at}
            alert = {
                "kind": text, "level": text, "subject": text, "text": text, "evidence": text,
                "queue": text, "since_ms": self.now, "begun_ms": self.now,
            }  # fmt: skip
            fields = {
                f"target:{name}": target, f"status:{name}": status, f"alert:{text}:{text}": alert,
                f"silence:paused:{text}": {"by": text, "why": text, **times},
            }  # fmt: skip
            stored = {each: json.dumps(value) for each, value in fields.items()}
            self.raw.hset(self._key("x:alerts"), mapping=stored)

    def _audit(self):
        key = self._key("x:audit")
        for text in self.names:
            fields = dict.fromkeys(("user", "address", "call", "queue", "target"), text)
            begin = self.raw.xadd(key, {**fields, "phase": "begin"})
            end = {**fields, "phase": "end", "begin": begin, "outcome": text}
            self.raw.xadd(key, end)

    def _trash(self):
        self.queues.create_queue("purged")
        for number, text in enumerate(self.texts):
            self.queues.send_message("purged", text, codec=TEXT)
            namespace = self.queues.namespace
            self.queues.run(purge_to_trash(namespace, f"{number:032x}", "purged", text[:160]))

    def _operations(self):
        """Plant operations of many messages; return the id of one."""
        namespace = self.queues.namespace
        for text in self.texts:
            id, operation = begin_operation(
                namespace, OperationKind.REDRIVE, "dead", {"destination": text, "filter": text},
                total=9, creator=text, address=text,
            )  # fmt: skip
            self.queues.run(operation)
            state = {"error": text, "state": "failed", "ended": self.now}
            self.raw.hset(namespace.operation(id), mapping=state)
            self.raw.zadd(namespace.operations, {id: -self.now})
        return id
