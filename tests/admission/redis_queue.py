"""A real queue with groups that follows the events of the model, by this library and by Node.

With more than one message of a group at a time, its groups are limit keys."""

from __future__ import annotations

from rsmq import RSMQ, Message
from tests.admission.events import State

_DAY_MS = 86_400_000


class RedisQueue:
    """
    A queue on a server. The numbers of messages are those of the model.

    Attributes:
        ids: by the number of each message its id.
        received: the messages that were received, by their numbers, in order.
    """

    def __init__(self, server, ns, groups, size):
        self.raw, self.rsmq = server.raw(), RSMQ.from_url(server.url, ns=ns)
        self.zset, self.hash = f"{ns}:q", f"{ns}:q:Q"
        self.size, self.groups = size, groups
        self.ids, self.received = {}, []
        self.rsmq.create_queue("q")
        self.rsmq.create_queue("dead")

    def close(self):
        self.rsmq.close()
        self.raw.close()

    def now(self):
        seconds, microseconds = self.raw.time()
        return seconds * 1000 + microseconds // 1000

    def number(self, id):
        return next(number for number, each in self.ids.items() if each == id)

    def latest(self, number):
        return next(each for of, each in reversed(self.received) if of == number)

    # The events

    def send(self, number, *, by, **delay):
        """Send a message by the script of one, of several, or of messages with other options."""
        name, most = "group", self.size.most
        if most > 1:
            name, delay = "limit_key", {**delay, "max_running": most}
        group, body = f"g{number // self.size.messages}", str(number)
        self.remove_free_records()
        if by == "batch":
            groups = {f"{name}s": [group]}
            [self.ids[number]] = self.rsmq.send_messages("q", [body], **groups, **delay)
        else:
            key = {"unique_key": str(len(self.ids))} if by == "options" else {}
            self.ids[number] = self.rsmq.send_message("q", body, **{name: group}, **key, **delay)

    def remove_free_records(self):
        """Remove those that a send might choose at random, so that the model knows which."""
        key = f"{self.zset}:x:"
        for id, record in self.raw.hgetall(key + "group_of").items():
            if self.raw.zscore(self.zset, id) is None:
                member = record.partition(b":")[2] + b"\0" + id
                self.raw.zrem(key + "admitted", member)
                self.raw.zrem(key + "held_back", member)
                self.raw.hdel(key + "group_of", id)

    def receive(self, *, by_node):
        """Receive the message that is due first. Return its number, or None."""
        if not by_node:
            message = self.rsmq.receive_message("q", vt=1000)
            if message is None:
                return None
            assert message.body == str(self.number(message.id))
        else:
            id = self.first_due()
            if id is None:
                return None
            with self.raw.pipeline() as pipe:
                pipe.hincrby(self.hash, "totalrecv", 1)
                pipe.hincrby(self.hash, f"{id}:rc", 1)
                pipe.hsetnx(self.hash, f"{id}:fr", self.now())
                pipe.zadd(self.zset, {id: self.now() + 1_000_000})
                pipe.execute()
            stored = self.rsmq.get_message("q", id)
            message = Message("q", id, stored.raw, stored.receive_count, stored.first_received_ms)
        self.received.append((self.number(message.id), message))
        return self.number(message.id)

    def pop(self, *, by_node):
        """Pop the message that is due first. Return its number, or None."""
        if not by_node:
            message = self.rsmq.pop_message("q")
            return None if message is None else self.number(message.id)
        id = self.first_due()
        if id is None:
            return None
        self.node_delete(self.number(id))
        return self.number(id)

    def first_due(self):
        found = self.raw.zrangebyscore(self.zset, "-inf", self.now(), 0, 1)
        return found[0].decode() if found else None

    def node_delete(self, number):
        id = self.ids[number]
        with self.raw.pipeline() as pipe:
            pipe.zrem(self.zset, id)
            pipe.hdel(self.hash, id, f"{id}:rc", f"{id}:fr")
            pipe.execute()

    def score(self, number, score):
        assert self.raw.zadd(self.zset, {self.ids[number]: score}, xx=True) == 0

    def put_first(self, number):
        [(_, first)] = self.raw.zrange(self.zset, 0, 0, withscores=True)
        self.score(number, first - 1)

    def expire(self, number):
        self.raw.hset(self.hash, "x:limited", "1")
        self.raw.hset(f"{self.zset}:x:limits", self.ids[number], ":1")
        assert self.rsmq.sweep_expired("q") == [self.ids[number]]

    def put_back(self, number, *, was_received):
        id = self.ids[number]
        self.raw.hdel(f"{self.zset}:x:limits", id)
        self.raw.hset(self.hash, id, str(number))
        if was_received:
            self.raw.hset(self.hash, f"{id}:rc", 1)
        self.raw.zadd(self.zset, {id: self.now()})

    def age(self, numbers, ms):
        for number in numbers:
            self.raw.zincrby(self.zset, -ms, self.ids[number])

    def lose(self, keys):
        names = {"admitted": "admitted", "held": "held_back", "keyed": "group_of"}
        for key in keys:
            self.raw.delete(f"{self.zset}:x:{names[key]}")

    # What is stored

    def states(self):
        """Return the state of each message, as its score says it."""
        now, states = self.now(), {}
        for number, id in self.ids.items():
            score = self.raw.zscore(self.zset, id)
            if score is None:
                assert not self.raw.hexists(self.hash, id)
                states[number] = State.ABSENT
            elif score <= now:
                states[number] = State.DUE
            else:
                is_far = score > now + _DAY_MS / 4
                states[number] = State.HELD_BACK if is_far else State.HIDDEN
        return states

    def records(self):
        """Return the numbers in the keys with x:, of those messages that are in the queue."""
        found = {}
        for name, key in (("admitted", "admitted"), ("held", "held_back")):
            members = self.raw.zrange(f"{self.zset}:x:{key}", 0, -1)
            found[name] = {self.number(each.decode().rpartition("\0")[2]) for each in members}
        keyed = self.raw.hkeys(f"{self.zset}:x:group_of")
        found["keyed"] = {self.number(each.decode()) for each in keyed}
        return found
