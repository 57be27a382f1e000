"""A run of the steady job, with faults: kills of its processes and of what it runs on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress

from rsmq import RSMQ
from tests.nodes import are_in_step, wait_until
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS
from tests.sentinels import SentinelGroup
from tests.servers import Server, redis_7
from tests.spark.session import kill_checker, processes, steady_job
from tests.spark.session.conftest import ENVIRONMENT, FORKS, ROOT, SHORT, submit_arguments
from tests.spark.session.standalone import SPARK_HOME, run_cluster

NS = "soak"
_DURABLE = {"appendonly": "yes", "appendfsync": "always"}
_MARK = "-Drsmq.soak=executor"
_BATCH = 2000
_GROUPS = 500
_SLOW_SECONDS = 0.05
#: A failover of a primary that runs, but is too busy to answer, loses what its replica lacks.
_DOWN_AFTER_MILLISECONDS = 10_000
#: A fault comes at a random moment of this many seconds after a batch of each query...
_MAX_PAUSE_SECONDS = 3.0
#: ... or, with this probability, without a batch between: while the application recovers.
_DURING_RECOVERY = 0.25
_RECOVERY_SECONDS = 600
#: A task that is suspended continues after so long, if Spark has not started a second attempt.
_SUSPENDED_SECONDS = 30
_NAMES_FAILURE = re.compile(r"FAILED |Caused by: |([\w.]+\.)?\w+(Error|Exception)\b")


class LocalCluster:
    """Executors of ``local-cluster``, and one Redis behind a proxy that can make it slow."""

    def __init__(self, _folder, stack):
        settings = [word for name, value in _DURABLE.items() for word in (f"--{name}", value)]
        self.server = Server(redis_7(), *settings)
        stack.callback(self.server.stop)
        self.proxy = Proxy(self.server.port)
        stack.callback(self.proxy.close)
        self.url, self.master = self.proxy.url, "local-cluster[2,1,1024]"

    def raw_url(self):
        return self.server.url


class Standalone:
    """A standalone cluster of two workers, and a Redis with a replica and Sentinels."""

    def __init__(self, folder, stack):
        settings = [f"{name} {value}" for name, value in _DURABLE.items()]
        self.sentinels = SentinelGroup(
            redis_7(), options=settings, down_after_milliseconds=_DOWN_AFTER_MILLISECONDS
        )
        stack.callback(self.sentinels.stop)
        self.sentinels.start()
        self.cluster = stack.enter_context(run_cluster(folder))
        self.url, self.master = self.sentinels.url, f"spark://127.0.0.1:{self.cluster.port}"

    def raw_url(self):
        return f"redis://127.0.0.1:{self.sentinels.primary.port}/0"


PLACES = {"local-cluster": LocalCluster, "standalone": Standalone}


class SteadyRun:
    """
    The job at a place, which is started again when its driver ends; and the senders of its queues.

    Attributes:
        sent: how many messages were sent to the queue of each query.
        faults: how many there were of each kind.
        log: the output of the job.
    """

    def __init__(self, place, folder, chance):
        self._stack = ExitStack()
        self._folder, self._chance = folder, chance
        try:
            self.place = PLACES[place](folder / "cluster", self._stack)
            self._rsmq = RSMQ.from_url(self.place.url, ns=NS, retry_deadline=WAIT_SECONDS)
            self._stack.callback(self._rsmq.close)
        except BaseException:
            self._stack.close()
            raise
        self.sent = dict.fromkeys(steady_job.QUERIES, 0)
        self.faults = Counter()
        self.log, self._ledger = folder / "job.log", folder / "sent.jsonl"
        self._process = None
        self._variable = f"RSMQ_SOAK_FOLDER={folder}"
        # Executors on local-cluster run in its folder "work".
        self._home = folder / "spark"
        self._home.mkdir()
        for each in SPARK_HOME.iterdir():
            (self._home / each.name).symlink_to(each)
        for queue in (*steady_job.QUERIES, steady_job.TARGET):
            self._rsmq.create_queue(queue)

    def start(self):
        """Start the job."""
        java_options = f"{SHORT} {_MARK}"
        command = [
            sys.executable, "-m", "tests.spark.session.steady_job", "--url", self.place.url,
            "--ns", NS, "--master", self.place.master, "--folder", str(self._folder),
            "--batch", str(_BATCH), f"--java-options={java_options}",
        ]  # fmt: skip
        name, _, value = self._variable.partition("=")
        arguments = f"--driver-memory 512m {submit_arguments(SHORT)}"
        environment = {
            **os.environ, **ENVIRONMENT, FORKS: "", "SPARK_HOME": str(self._home), name: value,
            "PYSPARK_SUBMIT_ARGS": arguments,
        }  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def top_up(self):
        """Send messages, so that the queries always have some, and note each call in the ledger."""
        for query in steady_job.QUERIES:
            first = self.sent[query]
            if self._rsmq.get_queue_attributes(query).messages < 4 * _BATCH:
                groups = [f"g{n % _GROUPS}" for n in range(first, first + 1000)]
                bodies = [
                    f"{query} {n} {group} {'x' * 100}" for n, group in enumerate(groups, first)
                ]
                # With ids, the client repeats a call whose reply a busy server sends too late.
                ids = [f"{query}-{n}" for n in range(first, first + len(bodies))]
                self._rsmq.send_messages(query, bodies, groups=groups, dedup_ids=ids)
                self.sent[query] += len(bodies)
                call = {"query": query, "first": first, "messages": len(bodies)}
                with self._ledger.open("a") as ledger:
                    ledger.write(f"{json.dumps(call)}\n")

    def wait_for_batches(self, number=1):
        """Wait until each query has done further batches."""
        wanted = {query: self._count(query) + number for query in steady_job.QUERIES}
        self._wait(
            lambda: all(self._count(query) >= count for query, count in wanted.items()),
            each=self.top_up,
        )

    def _count(self, query):
        return steady_job.count_batches(self._folder, query)

    def _wait(self, condition, *, each=lambda: None):
        """Wait for a condition while the job runs; return its value."""
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while not (value := condition()):
            assert self._process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            each()
            time.sleep(0.1)
        return value

    def pause(self):
        """Wait for the moment of the next fault."""
        if self._chance.random() >= _DURING_RECOVERY:
            self.wait_for_batches()
        time.sleep(self._chance.uniform(0, _MAX_PAUSE_SECONDS))

    def inject(self, kind):
        """Let a fault of a kind happen; a slow Redis is slow until the next fault is over."""
        is_slow = kind == "slow Redis"
        FAULTS[kind](self)
        if isinstance(self.place, LocalCluster) and not is_slow:
            self.place.proxy.delay = 0.0
        self.faults[kind] += 1
        self.top_up()

    def _kill_driver(self):
        # Python workers are in groups of their own: they end later, or when Spark ends them.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.start()

    def _run_driver_out_of_memory(self):
        before = self._count_lines(steady_job.OUT_OF_MEMORY)
        (self._folder / steady_job.FILL_MEMORY).touch()
        self._process.wait(_RECOVERY_SECONDS)
        assert self._count_lines(steady_job.OUT_OF_MEMORY) > before, self.read_log()
        self.start()

    def _kill_executor(self):
        self._signal_one(lambda: processes.find_executors(_MARK))

    def _kill_python_worker(self):
        self._signal_one(lambda: processes.find_python_workers(self._folder))

    def _kill_source(self):
        self._signal_one(lambda: processes.find_sources(self._process.pid))

    def _signal_one(self, find, number=signal.SIGKILL):
        """Send a signal to a process as soon as there is one; return its id."""
        while True:
            # Without messages Spark starts no Python worker.
            pid = self._chance.choice(self._wait(find, each=self.top_up))
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                return pid

    def _suspend_task(self):
        """Suspend a Python worker until Spark starts a second attempt of a task, or for a time."""
        before = self._count_lines(steady_job.SPECULATABLE)
        pid = self._signal_one(lambda: processes.find_python_workers(self._folder), signal.SIGSTOP)
        deadline = time.monotonic() + _SUSPENDED_SECONDS
        self._wait(
            lambda: (
                self._count_lines(steady_job.SPECULATABLE) > before or time.monotonic() > deadline
            ),
            each=self.top_up,
        )
        time.sleep(self._chance.uniform(0, _MAX_PAUSE_SECONDS))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def _replace_worker(self):
        """Kill a worker of the standalone cluster, and add another one after a moment."""
        cluster = self.place.cluster
        cluster.kill_worker(self._chance.randrange(len(cluster.workers)))
        time.sleep(self._chance.uniform(0, _MAX_PAUSE_SECONDS))
        cluster.add_worker()

    def _restart_redis(self):
        self.place.server.kill()
        time.sleep(self._chance.uniform(0, 2))
        self.place.server.start()

    def _slow_redis_down(self):
        self.place.proxy.delay = _SLOW_SECONDS

    def _fail_over(self):
        """Kill the primary when its replica has all that it has acknowledged."""
        sentinels = self.place.sentinels
        old, replicas = sentinels.primary, sentinels.replicas
        old.ask("CLIENT", "PAUSE", str(_RECOVERY_SECONDS * 1000), "WRITE")
        wait_until(lambda: are_in_step(old, replicas), failure="replicas not in step")
        old.kill()
        sentinels.wait_until_promoted(old)
        sentinels.heal()

    def count_speculations(self):
        """Return how many tasks got a second attempt."""
        return self._count_lines(steady_job.SPECULATABLE)

    def _count_lines(self, text):
        return self.log.read_text(errors="replace").count(text)

    def finish(self):
        """Let the queries process all messages, and stop the job."""
        self._wait(
            lambda: (
                not any(
                    self._rsmq.get_queue_attributes(query).messages for query in steady_job.QUERIES
                )
            )
        )
        (self._folder / "stop").touch()
        assert self._process.wait(WAIT_SECONDS) == 0, self.read_log()

    def check(self):
        """Run the checker in a process of its own; return whether all is clean, and its output."""
        moved, stored = steady_job.QUERIES
        arguments = {
            "url": self.place.raw_url(), "ns": NS, "ledger": self._ledger, "moved": moved,
            "target": steady_job.TARGET, "stored": stored, "files": self._folder / "parquet",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, kill_checker.__file__, *(f"--{k}={v}" for k, v in arguments.items())],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode == 0, done.stdout

    def read_log(self):
        """Return the last failures that the log names, and its end."""
        text = self.log.read_text(errors="replace")
        named = [line[:500] for line in text.splitlines() if _NAMES_FAILURE.match(line)]
        if isinstance(self.place, Standalone):
            failovers = self.place.sentinels.count_failovers()
            asked = self.faults["Sentinel failover"]
            named.append(f"{failovers} failovers, {asked} of them faults of this run")
        return "\n".join([*named[-30:], "...", text[-4000:]])

    def close(self):
        """Kill what still runs."""
        processes.kill_marked(self._variable)
        self._stack.close()


#: What each kind of fault does.
FAULTS = {
    "driver": SteadyRun._kill_driver,
    "driver out of memory": SteadyRun._run_driver_out_of_memory,
    "executor": SteadyRun._kill_executor,
    "Python worker": SteadyRun._kill_python_worker,
    "suspended task": SteadyRun._suspend_task,
    "streaming source": SteadyRun._kill_source,
    "worker of the cluster": SteadyRun._replace_worker,
    "Redis": SteadyRun._restart_redis,
    "slow Redis": SteadyRun._slow_redis_down,
    "Sentinel failover": SteadyRun._fail_over,
}
