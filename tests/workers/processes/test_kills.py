"""kill -9 at random, poison among the messages: none lost, none with two holders."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time

import pytest

from rsmq import JSON
from tests.scale import scaled
from tests.workers.processes.account import Account, Life
from tests.workers.processes.conftest import Program, fill, nothing_left, scores, until
from tests.workers.processes.program import POISONED

pytestmark = pytest.mark.timeout(scaled(280, 7200))

MESSAGES = scaled(5_000, 100_000)
VT = 120
RETRIES = 3
NAMES = "one", "two"
QUEUES = "threads", "tasks"


def bodies_of(chance, number):
    """Bodies in any order; most are handled at once."""
    rare = {
        "fail": number // 100,
        "fail_first": number // 50,
        "undecodable": number // 200,
        "kill": scaled(2, 20) // 2,
        "exit": scaled(2, 20) // 2,
    }
    slow = number // 5
    kinds = [kind for kind, often in rare.items() for _ in range(often)]
    kinds += ["sleep"] * slow + ["return"] * (number - slow - len(kinds))
    chance.shuffle(kinds)
    bodies = []
    for n, kind in enumerate(kinds):
        body = {"n": n, "do": kind}
        if kind == "fail_first":
            body["times"] = 2
        elif kind == "sleep":
            body["for"] = chance.uniform(0.005, 0.08)
        bodies.append(body)
    return bodies


class Crew:
    """Workers by name, each started again as soon as it is dead."""

    def __init__(self, folder, server, ns):
        self._at_work = (folder, server, ns)
        self.lives = []
        self.living = {}
        self.over = threading.Event()
        self.lock = threading.Lock()
        self._keepers = [threading.Thread(target=self._keep, args=(name,)) for name in NAMES]
        for keeper in self._keepers:
            keeper.start()

    def _keep(self, name):
        listeners = {
            queue: {
                "vt": VT, "max_retries": RETRIES, "backoff": 0.05, "is_async": queue == "tasks",
                "dead_letter_queue": f"{queue}-dead",
            }
            for queue in QUEUES
        }  # fmt: skip
        while True:
            with self.lock:
                if self.over.is_set():
                    return
                program = self.living[name] = Program(
                    *self._at_work, name, listeners, concurrency=4
                )
            program.process.wait()
            life = Life(name, program.begun, time.time(), program.process.returncode, [])
            life.events = program.events()
            self.lives.append(life)
            if life.code not in {0, POISONED, -signal.SIGKILL}:
                print(program)

    def kill_one(self, chance):
        """
        Kill a worker, but only one in four of those that are still starting.

        A restarted worker runs quarantined messages first. On a slow machine it would be killed
        before it is through with them, and a message killed three times there is a dead letter.
        """
        program = self.living.get(chance.choice(NAMES))
        if program is not None and (self._works(program) or chance.random() < 0.25):
            program.kill()

    @staticmethod
    def _works(program):
        return program.process.poll() is None and program.events("started")

    def end(self):
        """Stop all in order; their exit codes."""
        for name in NAMES:
            until(lambda each=name: self._works(self.living[each]))
        with self.lock:
            self.over.set()
        programs = list(self.living.values())
        for program in programs:
            program.process.terminate()
        for keeper in self._keepers:
            keeper.join()
        return [program.process.returncode for program in programs]


def test_kills_lose_nothing_and_double_nothing(server, ns, rsmq, raw, tmp_path):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    sent = {}
    for queue in QUEUES:
        rsmq.create_queue(f"{queue}-dead")
        bodies = bodies_of(chance, MESSAGES // 2)
        ids = fill(rsmq, queue, bodies)
        sent[queue] = dict(zip(ids, (body["do"] for body in bodies), strict=True))
        for id, kind in sent[queue].items():
            if kind == "undecodable":
                raw.hset(f"{ns}:{queue}:Q", id, b"\xff{")
    begin = time.monotonic()
    crew = Crew(tmp_path, server, ns)
    try:
        deadline = time.monotonic() + scaled(120, 7000)
        while any(raw.zcard(f"{ns}:{queue}") for queue in QUEUES):
            assert time.monotonic() < deadline, {q: scores(raw, ns, q) for q in QUEUES}
            time.sleep(chance.uniform(0.1, 0.9))
            crew.kill_one(chance)
    finally:
        codes = crew.end()
    seconds = time.monotonic() - begin
    account = Account(crew.lives)
    deaths = sum(life.code != 0 for life in crew.lives)
    begun = sum(map(len, account.begun.values()))
    print(f"{MESSAGES} messages, {begun} attempts, {deaths} deaths, {seconds:.1f} s")

    assert account.problems == []
    assert codes == [0, 0]
    for queue in QUEUES:
        doomed = {id for id, kind in sent[queue].items() if kind in DEADLY}
        graves = {each.id: each for each in rsmq.peek_messages(f"{queue}-dead", 0, 10_000)}
        wrong = {id: sent[queue][id] for id in graves.keys() - doomed}
        assert wrong == {}, [graves[id].reason for id in wrong]
        assert graves.keys() == doomed
        assert sent[queue].keys() - doomed <= account.handled
        for id, grave in graves.items():
            rightly_dead(sent[queue][id], grave, account, id)
    nothing_left(raw, ns, *QUEUES, killed=True)


DEADLY = {"fail", "undecodable", "kill", "exit"}


def rightly_dead(kind, grave, account, id):
    reason = grave.reason
    assert reason.attempts == grave.receive_count
    begun = account.begun[id]
    if kind == "undecodable":
        assert "not decodable" in reason.text, reason
        assert begun == []
    elif kind == "fail":
        # One that was not told of, as its process was killed, counts as an attempt too.
        assert reason.exception.startswith("Failed: attempt"), reason
        assert reason.attempts == begun[-1]
        assert begun[-1] > RETRIES
        for count, life in account.failures[id][:-1]:
            assert count <= RETRIES or life.code != 0, (begun, reason)
        if not any(life.code for _, life in account.failures[id]):
            assert begun == list(range(1, RETRIES + 2)), reason
    else:
        assert "never ended" in reason.text, reason
        assert begun[-1] > RETRIES + 1


def test_each_poison_alone_dies_and_none_of_its_neighbours(server, ns, rsmq, raw, program):
    """All that a process holds dies with it as often as the poison does."""
    rsmq.create_queue("dead")
    kinds = ["sleep", "kill", "sleep", "exit", "sleep", "sleep"]
    ids = fill(rsmq, "q", [{"n": n, "do": do, "for": 0.3} for n, do in enumerate(kinds)])
    listeners = {"q": {"vt": VT, "max_retries": 1, "backoff": 0.05, "dead_letter_queue": "dead"}}
    lives = 0
    while raw.zcard(f"{ns}:q"):
        lives += 1
        assert lives < 20
        one = program("one", listeners, concurrency=6)
        until(lambda: one.process.poll() is not None or not raw.zcard(f"{ns}:q"))  # noqa: B023
    assert one.stop() == 0

    graves = rsmq.peek_messages("dead", codec=JSON)
    assert sorted(grave.id for grave in graves) == [ids[1], ids[3]]
    for grave in graves:
        assert "never ended" in grave.reason.text
        assert grave.reason.worker == "one"
    nothing_left(raw, ns, "q")


def test_a_poison_does_not_use_up_the_attempts_of_what_waited_beside_it(
    server, ns, rsmq, raw, program
):
    """What the worker had received ahead, and not begun, has nothing to do with its death."""
    rsmq.create_queue("dead")
    fill(rsmq, "q", [{"n": n, "do": "kill" if n == 600 else "return"} for n in range(1500)])
    listeners = {"q": {"vt": VT, "max_retries": 4, "dead_letter_queue": "dead"}}
    counts = {}
    while raw.zcard(f"{ns}:q"):
        one = program("one", listeners, concurrency=4)
        until(lambda: one.process.poll() is not None or not raw.zcard(f"{ns}:q"))  # noqa: B023
        counts |= {event.id: event.count for event in one.events("begin")}
    assert one.stop() == 0
    worn = [count for count in counts.values() if count > 5]

    assert [grave.reason.attempts > 5 for grave in rsmq.peek_messages("dead")] == [True]
    assert len(worn) <= 10, f"{len(worn)} messages were received too often"


def test_a_kill_from_outside_is_not_taken_for_what_a_message_did(server, ns, rsmq, raw, program):
    """
    A message that was received too often is handled alone; that its process is killed meanwhile,
    by a deployment or for want of memory, says nothing of it.
    """
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "sleep", "for": 1.0}])
    listeners = {"q": {"vt": VT, "max_retries": 0, "dead_letter_queue": "dead"}}
    for _ in range(2):  # among others, then alone
        one = program("one", listeners)
        one.saw("begin")
        one.kill()
    one = program("one", listeners)
    until(lambda: not raw.zcard(f"{ns}:q"))
    assert one.stop() == 0

    assert [json.loads(grave.raw) for grave in rsmq.peek_messages("dead")] == []
    assert [event.id for event in one.events("end")] == [id]


@pytest.mark.parametrize("is_async", [False, True])
def test_messages_that_are_handled_alone_do_not_wait_for_each_other(
    ns, rsmq, raw, worker, is_async
):
    """As many are after a crash: all that its process held, and what it had received ahead."""
    rsmq.create_queue("dead")
    ids = fill(rsmq, "q", [{"n": n} for n in range(40)])
    for _ in range(2):
        rsmq.receive_messages("q", len(ids), vt=0)
    one = worker(concurrency=4)
    handled = []

    def handle(body, message):
        handled.append(message.id)

    async def handle_async(body, message):
        handled.append(message.id)

    options = {"vt": VT, "max_retries": 0, "dead_letter_queue": "dead"}
    one.listener("q", codec=JSON, **options)(handle_async if is_async else handle)
    begin = time.monotonic()
    one.start()
    until(lambda: len(handled) == len(ids), 60)
    seconds = time.monotonic() - begin
    one.stop()

    assert handled == ids
    # The time is what the test is about. With one message for each heartbeat it would be 40 s.
    assert seconds < 30
    nothing_left(raw, ns, "q")
