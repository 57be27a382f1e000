"""kill -9 at random, with poison messages: no message is lost, and no lease is held twice."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time

import pytest

from rsmq import JSON
from rsmq.worker.settle.settler import MESSAGES_PER_STEP
from tests.scale import scaled
from tests.workers.processes.audit import Audit, ProcessRun
from tests.workers.processes.conftest import Program, assert_nothing_left, fill, scores, wait_until
from tests.workers.processes.program import POISONED

MESSAGES = scaled(3_000, 100_000)
VT = 120
RETRIES = 3
CONCURRENCY = 4
NAMES = "one", "two"
QUEUES = "threads", "tasks"


def bodies_of(chance, number):
    """Return bodies in random order, most of which are handled at once."""
    rare = {
        "fail": number // 100,
        "fail_first": number // 50,
        "undecodable": number // 200,
        "kill": scaled(2, 20) // 2,
        "exit": scaled(2, 20) // 2,
    }
    slow = number // 5
    kinds = [kind for kind, repeats in rare.items() for _ in range(repeats)]
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


class Supervisor:
    """Workers by name, each of which is started again as soon as it is dead."""

    def __init__(self, folder, server, ns):
        self._program_options = (folder, server, ns)
        self.runs = []
        self.living = {}
        self._spared = {}
        self.over = threading.Event()
        self.lock = threading.Lock()
        self._threads = [threading.Thread(target=self._restart, args=(name,)) for name in NAMES]
        for thread in self._threads:
            thread.start()

    def _restart(self, name):
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
                    *self._program_options, name, listeners, concurrency=CONCURRENCY
                )
            program.process.wait()
            run = ProcessRun(name, program.started_at, time.time(), program.process.returncode, [])
            run.events = program.events()
            self.runs.append(run)
            if run.code not in {0, POISONED, -signal.SIGKILL}:
                print(program)

    def kill_one(self, chance):
        """
        Kill a worker; three of four workers only if they have handled a message since their start.

        On a slow machine they would all be killed before that, and no message would be handled. A
        restarted worker also runs quarantined messages first, and a message killed three times in
        quarantine is dead-lettered.
        """
        program = self.living.get(chance.choice(NAMES))
        if program is None:
            return
        is_spared = self._spared.setdefault(program, chance.random() < 0.75)
        if not is_spared or program.events("end"):
            program.kill()

    def kill_busy(self, chance):
        """Kill a worker that has handled messages since its start."""

        def find():
            programs = [self.living[name] for name in NAMES if name in self.living]
            busy = [each for each in programs if self._is_working(each) and each.events("end")]
            return busy and chance.choice(busy)

        wait_until(find, failure="no worker handles messages").kill()

    @staticmethod
    def _is_working(program):
        return program.process.poll() is None and program.events("started")

    def end(self):
        """Stop all workers gracefully, and return their exit codes."""
        for name in NAMES:
            wait_until(lambda each=name: self._is_working(self.living[each]))
        with self.lock:
            self.over.set()
        programs = list(self.living.values())
        for program in programs:
            program.process.terminate()
        for thread in self._threads:
            thread.join()
        return [program.process.returncode for program in programs]


def test_kills_lose_and_duplicate_nothing(server, ns, rsmq, raw, tmp_path):
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
    supervisor = Supervisor(tmp_path, server, ns)
    try:
        deadline = time.monotonic() + scaled(800, 7000)
        while any(raw.zcard(f"{ns}:{queue}") for queue in QUEUES):
            assert time.monotonic() < deadline, {q: scores(raw, ns, q) for q in QUEUES}
            time.sleep(chance.uniform(0.1, 0.9))
            supervisor.kill_one(chance)
    finally:
        codes = supervisor.end()
    seconds = time.monotonic() - begin
    audit = Audit(supervisor.runs)
    deaths = sum(run.code != 0 for run in supervisor.runs)
    starts = sum(map(len, audit.starts.values()))
    print(f"{MESSAGES} messages, {starts} attempts, {deaths} deaths, {seconds:.1f} s")

    assert audit.problems == []
    assert codes == [0, 0]
    for queue in QUEUES:
        deadly_ids = {id for id, kind in sent[queue].items() if kind in DEADLY}
        letters = {each.id: each for each in rsmq.peek_messages(f"{queue}-dead", 0, 10_000)}
        unexpected = {id: sent[queue][id] for id in letters.keys() - deadly_ids}
        assert unexpected == {}, [letters[id].reason for id in unexpected]
        assert letters.keys() == deadly_ids
        assert sent[queue].keys() - deadly_ids <= audit.handled
        for id, letter in letters.items():
            check_dead_letter(sent[queue][id], letter, audit, id)
    assert_nothing_left(raw, ns, *QUEUES, killed=True)


#: The jobs and kills of a test without poison messages; the kills are spread evenly over the jobs.
JOBS = scaled(3_000, 50_000)
KILLS = scaled(6, 100)


def test_kills_repeat_only_messages_that_were_running_or_not_yet_deleted(
    server, ns, rsmq, raw, tmp_path
):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"RSMQ_SEED={seed}")
    chance = random.Random(seed)
    ids = set()
    for queue in QUEUES:
        rsmq.create_queue(f"{queue}-dead")
        bodies = [
            {"n": n, "do": "return"}
            if chance.random() < 0.8
            else {"n": n, "do": "sleep", "for": chance.uniform(0.005, 0.08)}
            for n in range(JOBS // len(QUEUES))
        ]
        ids.update(fill(rsmq, queue, bodies))

    def count_left():
        return sum(raw.zcard(f"{ns}:{queue}") for queue in QUEUES)

    supervisor = Supervisor(tmp_path, server, ns)
    try:
        for number in range(1, KILLS + 1):
            left = JOBS - number * JOBS // (KILLS + 1)
            wait_until(lambda left=left: count_left() <= left)
            supervisor.kill_busy(chance)
        wait_until(lambda: count_left() == 0)
    finally:
        codes = supervisor.end()
    audit = Audit(supervisor.runs)
    killed = [run for run in supervisor.runs if run.code == -signal.SIGKILL]
    running = [find_running(run) for run in killed]
    undeleted = [find_undeleted(run, audit) for run in killed]
    repeats = sum(map(len, audit.starts.values())) - len(audit.starts)
    print(
        f"{JOBS} jobs, {len(killed)} kills, {len(ids - audit.handled)} lost, {repeats} repeated: "
        f"{sum(map(len, running))} ran at a kill, "
        f"{sum(map(len, undeleted))} had ended"
    )

    assert audit.problems == []
    assert codes == [0, 0]
    assert len(killed) == KILLS
    assert {run.code for run in supervisor.runs} == {0, -signal.SIGKILL}
    assert audit.handled == ids
    assert all(len(each) <= CONCURRENCY for each in running)
    assert repeats == sum(map(len, running)) + sum(map(len, undeleted))
    # A worker deletes the messages of handlers that have returned in steps, without a pause.
    assert all(
        each <= set(find_ended(run)[-MESSAGES_PER_STEP:])
        for run, each in zip(killed, undeleted, strict=True)
    )
    for queue in QUEUES:
        assert rsmq.peek_messages(f"{queue}-dead") == []
    assert_nothing_left(raw, ns, *QUEUES, killed=True)


def find_ended(run):
    """Return the ids and receive counts of the handlers that returned, in this order."""
    return [(event.id, event.count) for event in run.events if event.kind == "end"]


def find_running(run):
    """Return the ids and receive counts of the handlers that ran at the end of a process run."""
    begun = {(event.id, event.count) for event in run.events if event.kind == "begin"}
    return begun - set(find_ended(run))


def find_undeleted(run, audit):
    """Return the ids and receive counts of messages that began again after their handlers ended."""
    return {(id, count) for id, count in find_ended(run) if audit.starts[id][-1] > count}


DEADLY = {"fail", "undecodable", "kill", "exit"}


def check_dead_letter(kind, letter, audit, id):
    reason = letter.reason
    assert reason.attempts == letter.receive_count
    starts = audit.starts[id]
    if kind == "undecodable":
        assert "can't decode" in reason.text, reason
        assert starts == []
    elif kind == "fail":
        # An attempt whose failure was not logged because the process was killed counts too.
        assert reason.exception.startswith("Failed: attempt"), reason
        assert reason.attempts == starts[-1]
        assert starts[-1] > RETRIES
        for count, run in audit.failures[id][:-1]:
            assert count <= RETRIES or run.code != 0, (starts, reason)
        assert audit.unexplained_gaps[id] == [], (starts, reason)
    else:
        assert "in each run its worker died" in reason.text, reason
        assert starts[-1] > RETRIES + 1


def test_poison_messages_are_dead_lettered_and_no_others(server, ns, rsmq, raw, start_program):
    """All messages in flight die with the process as often as the poison message does."""
    rsmq.create_queue("dead")
    kinds = ["sleep", "kill", "sleep", "exit", "sleep", "sleep"]
    ids = fill(rsmq, "q", [{"n": n, "do": do, "for": 0.3} for n, do in enumerate(kinds)])
    listeners = {"q": {"vt": VT, "max_retries": 1, "backoff": 0.05, "dead_letter_queue": "dead"}}
    process_runs = 0
    while raw.zcard(f"{ns}:q"):
        process_runs += 1
        assert process_runs < 20
        one = start_program("one", listeners, concurrency=6)
        wait_until(lambda: one.process.poll() is not None or not raw.zcard(f"{ns}:q"))  # noqa: B023
    assert one.stop() == 0

    letters = rsmq.peek_messages("dead", codec=JSON)
    assert sorted(letter.id for letter in letters) == [ids[1], ids[3]]
    for letter in letters:
        assert "in each run its worker died" in letter.reason.text
        assert letter.reason.worker == "one"
    assert_nothing_left(raw, ns, "q")


def test_poison_message_does_not_consume_attempts_of_prefetched_messages(
    server, ns, rsmq, raw, start_program
):
    """Messages that were prefetched, and had not begun, cannot have killed the worker."""
    rsmq.create_queue("dead")
    fill(rsmq, "q", [{"n": n, "do": "kill" if n == 600 else "return"} for n in range(1500)])
    listeners = {"q": {"vt": VT, "max_retries": 4, "dead_letter_queue": "dead"}}
    counts = {}
    while raw.zcard(f"{ns}:q"):
        one = start_program("one", listeners, concurrency=4)
        wait_until(lambda: one.process.poll() is not None or not raw.zcard(f"{ns}:q"))  # noqa: B023
        counts |= {event.id: event.count for event in one.events("begin")}
    assert one.stop() == 0
    over_limit = [count for count in counts.values() if count > 5]

    assert [letter.reason.attempts > 5 for letter in rsmq.peek_messages("dead")] == [True]
    assert len(over_limit) <= 10, f"{len(over_limit)} messages were received too often"


def test_external_kill_is_not_attributed_to_a_message(server, ns, rsmq, raw, start_program):
    """
    A message that was received too often runs in quarantine. If its process is killed meanwhile, by
    a deployment or for lack of memory, the message is not to blame.
    """
    rsmq.create_queue("dead")
    [id] = fill(rsmq, "q", [{"n": 0, "do": "sleep", "for": 1.0}])
    listeners = {"q": {"vt": VT, "max_retries": 0, "dead_letter_queue": "dead"}}
    for _ in range(2):  # among others, then in quarantine
        one = start_program("one", listeners)
        one.wait_for("begin")
        one.kill()
    one = start_program("one", listeners)
    wait_until(lambda: not raw.zcard(f"{ns}:q"))
    assert one.stop() == 0

    assert [json.loads(letter.raw) for letter in rsmq.peek_messages("dead")] == []
    assert [event.id for event in one.events("end")] == [id]


@pytest.mark.parametrize("is_async", [False, True])
def test_quarantined_messages_do_not_wait_for_a_heartbeat_each(
    ns, rsmq, raw, create_worker, is_async
):
    """After a crash there are many: all that were in flight or prefetched in the process."""
    rsmq.create_queue("dead")
    ids = fill(rsmq, "q", [{"n": n} for n in range(40)])
    for _ in range(2):
        rsmq.receive_messages("q", len(ids), vt=0)
    one = create_worker(concurrency=4)
    handled = []

    def handle(body, message):
        handled.append(message.id)

    async def handle_async(body, message):
        handled.append(message.id)

    options = {"vt": VT, "max_retries": 0, "dead_letter_queue": "dead"}
    one.listener("q", codec=JSON, **options)(handle_async if is_async else handle)
    begin = time.monotonic()
    one.start()
    wait_until(lambda: len(handled) == len(ids))
    seconds = time.monotonic() - begin
    one.stop()

    assert handled == ids
    # The time is what the test is about. With one message for each heartbeat it would be 40 s.
    assert seconds < 30
    assert_nothing_left(raw, ns, "q")
