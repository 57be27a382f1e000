"""
One random program of calls, run by Node, by this library, and by both in random turns.

Results and final keys are equal. A program also has invalid calls. Each call has a millisecond of
its own, because messages of one millisecond have a random order. Delays and timeouts are zero or
hours, so that only the program's own steps let time pass.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from compat.peers import Node, Ours, Refused
from tests.scale import scaled

QUEUES = ("q", "p")
HOURS = (0, 3600, 7200)


class Program:
    """The calls, drawn from a seed; messages are named by the order of their sends."""

    def __init__(self, seed, length=60):
        self._random = random.Random(seed)
        self.calls = [("create_queue", {"qname": "q"}), *(self._call() for _ in range(length))]

    def _call(self):
        rng = self._random
        qname = rng.choice(QUEUES)
        message = {"qname": qname, "id": rng.randrange(15)}
        operations = [
            (3, "create_queue", {"qname": qname, **self._options(vt=HOURS, delay=HOURS)}),
            (1, "create_queue", {"qname": qname, "maxsize": rng.choice((1024, 65536, -1, 7))}),
            (1, "create_queue", {"qname": rng.choice(("", "a b", "é"))}),
            (1, "delete_queue", {"qname": qname}),
            (1, "list_queues", {}),
            (4, "get_queue_attributes", {"qname": qname}),
            (2, "set_queue_attributes", {"qname": qname, **self._options(vt=HOURS, delay=HOURS)}),
            (1, "set_queue_attributes", {"qname": qname, "maxsize": rng.choice((1024, -1, 9))}),
            (14, "send_message", {"qname": qname, **self._message(), **self._options(delay=HOURS)}),
            (1, "send_message", {"qname": qname, "message": rng.choice((None, 7, True))}),
            (1, "receive_message", {"qname": qname, "vt": rng.choice((-1, 10**7))}),
            (10, "receive_message", {"qname": qname, **self._options(vt=HOURS)}),
            (3, "pop_message", {"qname": qname}),
            (5, "change_message_visibility", {**message, "vt": rng.choice(HOURS)}),
            (5, "delete_message", message),
            (1, "delete_message", {"qname": qname, "id": rng.choice(("", "short"))}),
            (5, "elapse", {"seconds": rng.choice((2, 3600, 7200))}),
        ]  # fmt: skip
        weights = [weight for weight, _, _ in operations]
        _, operation, args = rng.choices(operations, weights)[0]
        return operation, args

    def _options(self, **choices):
        return {
            name: self._random.choice(values)
            for name, values in choices.items()
            if self._random.random() < 0.4
        }

    def _message(self):
        texts = ("", "m", "\0", "é" * 3, "😀", "x" * 1024, "😀" * 513)
        return {"message": self._random.choice(texts)}


class ProgramRun:
    """One program on one namespace; ``turns`` yields the client for each call."""

    def __init__(self, server, ns, turns):
        self._raw = server.raw()
        self._ns = ns
        self._turns = turns
        self._ids = []

    def results(self, program):
        """Return the result of each call, with ids as numbers and without clock readings."""
        begin = self._seconds()
        results = []
        for operation, drawn_args in program.calls:
            client = next(self._turns)
            client.ns = self._ns
            args = {**drawn_args}
            if isinstance(args.get("id"), int):
                number = args["id"]
                args["id"] = self._ids[number] if number < len(self._ids) else f"{number:032}"
            time.sleep(0.0012)
            if operation == "elapse":
                self._advance_time(args["seconds"])
                continue
            if operation in ("get_queue_attributes", "set_queue_attributes"):
                self._advance_time(2)  # so that no message became due within this second
            is_invalid = args.get("vt") in (-1, 10**7) or not isinstance(
                args.get("message", ""), str
            )
            if is_invalid and not self._raw.exists(f"{self._ns}:{args['qname']}:Q"):
                continue  # of two faults, the first error is a deviation
            try:
                result = getattr(client, operation)(**args)
            except Refused as refused:
                result = (refused.name, refused.text)
            else:
                if operation == "send_message":
                    self._ids.append(result)
            results.append((operation, self._normalize(result, begin)))
        return results

    def keys(self):
        """Return every key at the end, with ids as numbers and times as hours from now."""
        state = {}
        now = self._seconds() * 1000
        for key in self._raw.keys(f"{self._ns}:*"):
            name = key.decode().removeprefix(f"{self._ns}:")
            kind = self._raw.type(key)
            assert self._raw.ttl(key) == -1, f"{key} expires"
            if kind == b"set":
                state[name] = sorted(self._raw.smembers(key))
            elif kind == b"zset":
                stored = self._raw.zrange(key, 0, -1, withscores=True)
                state[name] = [
                    (self._number(id.decode()), round((score - now) / 3_600_000))
                    for id, score in stored
                ]
            else:
                state[name] = {
                    self._number(field.decode()): self._field(field, value)
                    for field, value in self._raw.hgetall(key).items()
                }
        return state

    def close(self):
        for key in self._raw.scan_iter(f"{self._ns}:*"):
            self._raw.delete(key)
        self._raw.close()

    def _seconds(self):
        return self._raw.time()[0]

    def _advance_time(self, seconds):
        for qname in QUEUES:
            key = f"{self._ns}:{qname}"
            for id, score in self._raw.zrange(key, 0, -1, withscores=True):
                self._raw.zadd(key, {id: score - seconds * 1000})

    def _number(self, name):
        id, colon, rest = name.partition(":")
        return f"{self._ids.index(id)}{colon}{rest}" if id in self._ids else name

    @staticmethod
    def _field(name, value):
        if name in (b"created", b"modified"):
            return "a time" if value.isdigit() else value
        if name.endswith(b":fr"):
            return "a time" if len(value) == 13 and value.isdigit() else value
        return value

    def _normalize(self, result, begin):
        if isinstance(result, str):
            return self._number(result)
        if isinstance(result, dict) and "id" in result:
            sent = int(result["id"][:10], 36) / 1000
            assert result["sent"] == sent
            assert begin * 1000 <= result["fr"] <= self._seconds() * 1000 + 1000
            return self._number(result["id"]), result["message"], result["rc"]
        if isinstance(result, dict):
            assert begin <= result["created"] <= result["modified"] <= self._seconds()
            return {**result, "created": None, "modified": None}
        return result


def draw_turns(*clients, seed=0):
    rng = random.Random(seed)
    while True:
        yield rng.choice(clients)


#: RSMQ_SEED=n runs only the program with this seed.
SEED = os.environ.get("RSMQ_SEED")
FIRST_SEED = random.SystemRandom().randrange(10**9)


def seeds(part):
    if SEED is not None:
        return [int(SEED)]
    return range(FIRST_SEED + part * 10**9, FIRST_SEED + part * 10**9 + scaled(12, 1000))


@pytest.mark.parametrize("part", range(4))
def test_programs_have_equal_results_with_every_client(part, server, peers, ns):
    node, ours = peers(Node), Ours(server, ns)
    for seed in seeds(part):
        try:
            run_three_times(seed, server, node, ours, ns)
        except Exception as error:
            error.add_note(f"RSMQ_SEED={seed} runs it again")
            raise
    ours.close()


def run_three_times(seed, server, node, ours, ns):
    program = Program(seed)
    runs = {
        "Node": ProgramRun(server, f"{ns}n{seed}", draw_turns(node)),
        "ours": ProgramRun(server, f"{ns}o{seed}", draw_turns(ours)),
        "both": ProgramRun(server, f"{ns}b{seed}", draw_turns(node, ours, seed=seed)),
    }
    outcomes = {}
    for name, run in runs.items():
        outcomes[name] = (run.results(program), run.keys())
        run.close()
        node.close_clients(f"{ns}{name[0].lower()}{seed}")
        ours.close_clients(f"{ns}{name[0].lower()}{seed}")

    for name in ("ours", "both"):
        for index, (node_result, our_result) in enumerate(
            zip(outcomes["Node"][0], outcomes[name][0], strict=True)
        ):
            assert node_result == our_result, f"{name}, answer {index}"
        assert outcomes["Node"][1] == outcomes[name][1], name


def test_programs_have_calls_of_every_kind_that_succeed_and_fail(server, peers, ns):
    node = peers(Node)
    kinds_of_results = set()
    for seed in range(30):
        run = ProgramRun(server, f"{ns}k{seed}", draw_turns(node))
        for operation, result in run.results(Program(seed)):
            kinds_of_results.add(
                (operation, result[0] if isinstance(result, tuple) else type(result).__name__)
            )
        run.close()
        node.close_clients(f"{ns}k{seed}")

    for operation in ("create_queue", "change_message_visibility", "delete_message"):
        assert (operation, "bool") in kinds_of_results
    for operation, error in [
        ("create_queue", "queueExists"),
        ("create_queue", "invalidValue"),
        ("create_queue", "invalidFormat"),
        ("send_message", "messageTooLong"),
        ("send_message", "messageNotString"),
        ("set_queue_attributes", "noAttributeSupplied"),
        ("receive_message", "queueNotFound"),
        ("delete_message", "missingParameter"),
    ]:
        assert (operation, error) in kinds_of_results
    assert ("pop_message", "NoneType") in kinds_of_results
    assert ("get_queue_attributes", "dict") in kinds_of_results
