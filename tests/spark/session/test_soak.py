"""
In scripts/soak spark, one run with kill -9 of every kind of process, at random moments.

Two queries run all the time: queue to queue with exactly-once, and queue to Parquet. A ledger of
numbered messages shows at the end that none was lost or doubled.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from rsmq import RSMQ
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7
from tests.spark.session import processes, steady_job
from tests.spark.session.conftest import ENVIRONMENT, ROOT
from tests.spark.session.standalone import SPARK_HOME, run_cluster

NS = "soak"
MARK = "-Drsmq.soak=executor"
JAVA_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {MARK}"
BATCH = 2000
ATTRIBUTES = {b"vt", b"delay", b"maxsize", b"created", b"modified", b"totalsent", b"totalrecv"}
#: The number of kills of each kind, on each kind of cluster.
KILLS = {"driver": 8, "executor": 20, "Python worker": 13, "streaming source": 3, "Redis": 10}
#: RSMQ_SOAK_DIVISOR divides the numbers of kills, for a short trial.
DIVISOR = int(os.environ.get("RSMQ_SOAK_DIVISOR", "1"))
#: A kill comes at a random moment of this many seconds after a batch of each query...
_MAX_PAUSE_SECONDS = 3.0
#: ... or, with this probability, without a batch between: while the application recovers.
_DURING_RECOVERY = 0.25
_RECOVERY_SECONDS = 600
_NAMES_FAILURE = re.compile(r"FAILED |Caused by: |([\w.]+\.)?\w+(Error|Exception)\b")


@dataclass
class Soak:
    """
    The records of a run.

    Attributes:
        sent: how many messages were sent to the queue of each query.
        kills: the number of kills, by kind.
        restarts: how often the application was started again.
    """

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(steady_job.QUERIES, 0))
    kills: Counter = field(default_factory=Counter)
    restarts: int = 0


class Application:
    """The application, which is started again when it is killed; and the Redis of its queues."""

    def __init__(self, soak, server, rsmq, folder, chance):
        self._soak, self._server, self._rsmq = soak, server, rsmq
        self._folder, self._chance = folder, chance
        self._process = None
        self._variable = f"RSMQ_SOAK_FOLDER={folder}"
        self.log = folder / "job.log"
        # Executors on local-cluster run in its folder "work".
        self._home = folder / "spark"
        self._home.mkdir()
        for each in SPARK_HOME.iterdir():
            (self._home / each.name).symlink_to(each)

    def start(self, master):
        command = [
            sys.executable, "-m", "tests.spark.session.steady_job", "--url", self._server.url,
            "--ns", NS, "--master", master, "--folder", str(self._folder),
            "--batch", str(BATCH), f"--java-options={JAVA_OPTIONS}",
        ]  # fmt: skip
        environment = {**os.environ, **ENVIRONMENT, "SPARK_HOME": str(self._home)}
        name, _, value = self._variable.partition("=")
        environment[name] = value
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self._master = master

    def top_up(self):
        """Send messages, so that the queries always have some."""
        for query in steady_job.QUERIES:
            begin = self._soak.sent[query]
            if self._rsmq.get_queue_attributes(query).messages < 4 * BATCH:
                bodies = [f"{query} {begin + n} {'x' * 100}" for n in range(1000)]
                self._rsmq.send_messages(query, bodies)
                self._soak.sent[query] += len(bodies)

    def wait_for_batches(self, number=1):
        """Wait until each query has done further batches."""
        wanted = {query: self._count(query) + number for query in steady_job.QUERIES}
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while any(self._count(query) < count for query, count in wanted.items()):
            assert self._process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            self.top_up()
            time.sleep(0.1)

    def _count(self, query):
        return steady_job.count_batches(self._folder, query)

    def kill(self, kind):
        """Kill a process of a kind as soon as there is one."""
        if kind == "Redis":
            self._server.kill()
            time.sleep(self._chance.uniform(0, 2))
            self._server.start()
        elif kind == "driver":
            # Python workers are in groups of their own: they end later, or when Spark ends them.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._soak.restarts += 1
            self.start(self._master)
        else:
            self._kill_one_of(kind)
        self._soak.kills[kind] += 1

    def _kill_one_of(self, kind):
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while True:
            found = self._find(kind)
            if found:
                with suppress(ProcessLookupError):
                    os.kill(self._chance.choice(found), signal.SIGKILL)
                    return
            assert self._process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, (kind, self.read_log())
            self.top_up()  # without messages Spark starts no Python worker
            time.sleep(0.05)

    def _find(self, kind):
        if kind == "executor":
            return processes.find_executors(MARK)
        if kind == "Python worker":
            return processes.find_python_workers(self._folder)
        return processes.find_sources(self._process.pid)

    def pause(self):
        """Wait for the moment of the next kill."""
        if self._chance.random() >= _DURING_RECOVERY:
            self.wait_for_batches()
        time.sleep(self._chance.uniform(0, _MAX_PAUSE_SECONDS))

    def finish(self):
        """Let the queries process all messages, and stop the application."""
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while any(self._rsmq.get_queue_attributes(q).messages for q in steady_job.QUERIES):
            assert self._process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            time.sleep(0.5)
        (self._folder / "stop").touch()
        assert self._process.wait(WAIT_SECONDS) == 0, self.read_log()
        (self._folder / "stop").unlink()

    def read_log(self):
        """Return the last failures that the log names, and its end."""
        text = self.log.read_text(errors="replace")
        named = [line[:500] for line in text.splitlines() if _NAMES_FAILURE.match(line)]
        return "\n".join([*named[-30:], "...", text[-4000:]])

    def close(self):
        """Kill what runs after a failure."""
        processes.kill_marked(self._variable)


@contextmanager
def run_master(kind, folder):
    """Yield the URL of a master of a kind."""
    cluster = run_cluster(folder) if kind == "standalone" else nullcontext()
    with cluster as port:
        yield f"spark://127.0.0.1:{port}" if port else "local-cluster[2,1,1024]"


def choose_kinds(chance):
    """Return the kinds of all kills on a cluster, in a random order."""
    kinds = [kind for kind, number in KILLS.items() for _ in range(max(1, number // DIVISOR))]
    chance.shuffle(kinds)
    return kinds


def test_processes_that_die_at_random_lose_and_double_no_message(tmp_path, request):
    seed = int(os.environ.get("RSMQ_SEED", time.time_ns() % 10**9))
    print(f"\nRSMQ_SEED={seed}")
    chance, begin = random.Random(seed), time.monotonic()
    server = Server(redis_7(), "--appendonly", "yes", "--appendfsync", "always")
    rsmq = RSMQ.from_url(server.url, ns=NS, retry_deadline=60)
    for queue in (*steady_job.QUERIES, steady_job.TARGET):
        rsmq.create_queue(queue)
    soak = Soak()
    application = Application(soak, server, rsmq, tmp_path, chance)
    kills = Counter()
    try:
        for cluster in ("local-cluster", "standalone"):
            with run_master(cluster, tmp_path / cluster) as master:
                application.start(master)
                application.wait_for_batches(2)
                for number, kind in enumerate(choose_kinds(chance)):
                    application.pause()
                    application.kill(kind)
                    print(f"{time.monotonic() - begin:.0f} s: {cluster} {number}: {kind}, "
                          f"{soak.sent} sent", flush=True)  # fmt: skip
                    application.top_up()
                    kills[f"{kind} on {cluster}"] += 1
                application.wait_for_batches(2)
                application.finish()

        moved = read_target(server)
        rows = request.getfixturevalue("spark").read.parquet(str(tmp_path / "parquet"))
        stored = Counter(row["message"] for row in rows.select("message").collect())
        arrived = {"moved": count_numbers(moved), "stored": count_numbers(stored)}
        lost = {query: soak.sent[query] - len(arrived[query]) for query in arrived}
        doubled = {query: arrived[query].total() - len(arrived[query]) for query in arrived}
        print_summary(soak, kills, application, lost, doubled, time.monotonic() - begin)
        for query, number in soak.sent.items():
            assert arrived[query] == Counter(range(number))
            attributes = rsmq.get_queue_attributes(query)
            assert (attributes.total_sent, attributes.total_received) == (number, number)
        assert rsmq.get_queue_attributes(steady_job.TARGET).total_sent == soak.sent["moved"]
        assert_no_key_left(server)
    finally:
        application.close()
        rsmq.close()
        server.stop()


def read_target(server):
    """Return the number of each body in the target queue, from its raw keys."""
    with server.raw() as raw:
        ids = raw.zrange(f"{NS}:{steady_job.TARGET}", 0, -1)
        bodies = Counter()
        for begin in range(0, len(ids), 5000):
            fields = raw.hmget(f"{NS}:{steady_job.TARGET}:Q", ids[begin : begin + 5000])
            bodies.update(field.decode() for field in fields)
        return bodies


def count_numbers(bodies):
    """Return how often each number of a message arrived."""
    numbers = Counter()
    for body, count in bodies.items():
        numbers[int(body.split()[1])] += count
    return numbers


def print_summary(soak, kills, application, lost, doubled, seconds):
    log = application.log.read_text(errors="replace").splitlines()
    failed = sum(line.startswith("FAILED ") for line in log)
    for kind, number in sorted(kills.items()):
        print(f"{number:5} kills of: {kind}")
    print(f"{kills.total():5} kills in all, {soak.restarts} restarts of the application, "
          f"{failed} of queries, {soak.kills['Redis']} of Redis")  # fmt: skip
    for query, number in soak.sent.items():
        print(f"{query}: {number} messages, {lost[query]} lost, {doubled[query]} doubled")
    print(f"{seconds:.0f} s", flush=True)


def assert_no_key_left(server):
    """Check that only the queues, the messages of the target and what a query stores are left."""
    with server.raw() as raw:
        for queue in (*steady_job.QUERIES, steady_job.TARGET):
            ids = set(raw.zrange(f"{NS}:{queue}", 0, -1))
            assert set(raw.hkeys(f"{NS}:{queue}:Q")) - ATTRIBUTES == ids
        keys = {key.decode().removeprefix(f"{NS}:") for key in raw.keys("*")}
        leases = {key: raw.hkeys(key) for key in raw.keys("*:x:leases")}
    queues = {"moved:Q", "stored:Q", "target", "target:Q", "QUEUES"}
    # The numbers of the last batches, by which a replay is recognised.
    assert keys - queues == {"x:acked", "x:written"}, leases
