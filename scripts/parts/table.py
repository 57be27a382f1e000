"""
The parts of ``scripts/test``.

Parts that compute come first; the longest of each kind come early, so that all lanes end together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.scale import SOAK

from .lanes import Part

#: The earlier versions of PySpark that tests run with.
SPARK_VERSIONS = {"4.0": "4.0.5", "4.1": "4.1.4"}

_PEERS = "setup: the other clients"
_LOWEST = "setup: the lowest redis-py"
_CLASSES = "setup: the classes of Spark"
_CHECK = "core: format, lint, types, floors, unit"
_CONTRACT = "tests/contract"
_GROUPS = [
    *(
        f"tests/faults/test_{name}.py"
        for name in (
            "atomic_slot_moves",
            "cluster",
            "cluster_fixtures",
            "partitions",
            "replication",
            "rights_of_groups",
            "sentinel",
            "total_queue",
            "two_primaries",
        )
    ),
    "tests/push/test_servers.py",
    "tests/web/test_failover.py",
]
#: Its signals come at random moments, in the lock of coverage too, which a handler then leaves
#: locked.
_RANDOM_SIGNALS = "tests/faults/test_cancellation.py::test_random_interruptions_hide_no_message"


def _tests(
    *arguments: str, environment: str = ".venv", workers: int = 2, is_measured: bool = False
) -> list[str]:
    """Return the command of tests: folders and options of pytest."""
    program = [f"{environment}/bin/python", "-m", "pytest"]
    if is_measured:
        program = [f"{environment}/bin/coverage", "run", "-m", "pytest"]
    return [*program, "-q", "-n", str(workers), *arguments]


def repeated_parts(times: int, tests: Sequence[str], *, seed: int) -> list[Part]:
    """
    Return parts that run the same tests.

    Args:
        times: their number.
        tests: arguments of pytest.
        seed: the seed of the delays in the first run, see ``busy.py``; the next run has the next.
    """
    command = [".venv/bin/pytest", "-q", "-p", "no:cacheprovider", *tests]
    return [
        Part(f"run {each + 1}", 600, ["env", f"RSMQ_TEST_DELAYS={seed + each}", *command])
        for each in range(times)
    ]


def parts_of_version(version: str) -> list[Part]:
    """Return the core parts with another Python, which must be installed."""
    environment = f".venv-{version}"
    fast = ["-m", "redis and not slow and not foreign or not redis"]
    setup = f"Python {version}: environment"
    python = ["env", f"PYTHON=python{version}"]

    def part(name: str, budget_seconds: int, *arguments: str) -> Part:
        command = _tests(*arguments, environment=environment)
        return Part(f"Python {version}: {name}", budget_seconds, command, needs=[setup])

    return [
        Part(setup, 60, [*python, "scripts/setup", environment]),
        part("unit", 20, "tests/unit"),
        part("contract", 60, *fast, _CONTRACT),
        part("faults, properties", 60, *fast, "tests/faults", "tests/properties"),
        part("worker", 50, *fast, "tests/workers"),
    ]


def parts_of_spark(version: str) -> list[Part]:
    """
    Return the tests of frames, jobs on frames, the sink and streams with an earlier PySpark.

    Args:
        version: one of ``SPARK_VERSIONS``.
    """
    environment = f".venv-spark-{version}"
    setup = f"Spark {version}: environment"
    # Earlier versions of PySpark don't close some of their sockets.
    quiet = [
        "-W",
        "ignore::ResourceWarning",
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ]
    command = _tests(*quiet, environment=environment, workers=0)
    folder = "tests/spark/session"
    tests = [f"{folder}/test_{name}.py" for name in ("versions", "frames", "ways")]
    if SOAK:
        tests.append(f"{folder}/test_kills_at_random.py")
    jobs = [f"{folder}/test_pipelines.py", "-k", "kept or lines_of_json or migration or report_has"]
    return [
        Part(setup, 60, ["scripts/setup", environment, f"pyspark=={SPARK_VERSIONS[version]}"]),
        Part(f"Spark {version}: frames, tables, sink", 90, [*command, *tests], needs=[setup]),
        Part(f"Spark {version}: jobs on frames", 60, [*command, *jobs], needs=[setup]),
    ]


def quick_parts() -> list[Part]:
    """Return the parts that need only redis-server."""
    fast = ["-m", "not slow and not foreign and not spark and not browser"]
    return [
        Part(_CHECK, 30, ["scripts/check"]),
        Part("core: contract, on two servers", 45, _tests(*fast, _CONTRACT)),
        Part("core: faults", 35, _tests(*fast, "tests/faults")),
        Part("worker: in process", 45, _tests(*fast, "tests/workers")),
        Part(
            "cli, doctor, transfer, pyrsmq, opentelemetry", 50,
            _tests(
                *fast, "tests/cli", "tests/doctor", "tests/transfer", "tests/body_stores",
                "tests/pyrsmq", "tests/compat", "tests/tracing", "tests/schedules", "tests/tasks",
                "tests/asgi", "tests/jobs", "tests/django", "tests/transactions", "tests/web",
                "tests/history", "tests/trash", "tests/explain", "tests/admission",
            ),
        ),
        Part("push", 30, _tests(*fast, "tests/push")),
        Part("migrate", 30, _tests(*fast, "tests/migrate")),
    ]  # fmt: skip


def all_parts(folder: Path, *, is_measured: bool) -> list[Part]:
    """
    Return all parts.

    Args:
        folder: an empty folder for results that are not kept.
        is_measured: whether the coverage of ``rsmq/`` is measured, without that by Spark.
    """
    measured_names: list[str] = []

    def measured(
        name: str,
        budget_seconds: int,
        *arguments: str,
        workers: int = 2,
        is_waiting: bool = False,
        is_delicate: bool = False,
        needs: Sequence[str] = (),
    ) -> Part:
        measured_names.append(name)
        command = _tests(*arguments, workers=workers, is_measured=is_measured)
        return Part(name, budget_seconds, command, is_waiting, is_delicate, needs)

    parts = [
        Part(_CHECK, 60, ["scripts/check"]),
        Part(
            "core: types, by mypy and pyright", 40, _tests("tests/typing"),
            needs=[_CHECK, _PEERS],  # with the first one it shares a cache of mypy
        ),
        # The longest one: it starts as soon as what it needs is there.
        Part(
            "spark: in Spark, through kills too", 540,
            _tests("--dist", "loadfile", "--no-loadscope-reorder", "-m", "spark", "tests/spark"),
            needs=[_PEERS, _CLASSES],
        ),
        Part(_PEERS, 60, ["scripts/peers"], is_waiting=True),
        Part(
            _CLASSES, 60, [".venv/bin/python", "-m", "tests.spark.session.class_archive"],
            is_waiting=True,
        ),
        # Tests that wait for servers and processes: more of them run at the same time.
        # The first one is early, so that its servers find a machine with little work.
        measured(
            "core: clusters, Sentinels", 210, *_GROUPS, "--dist", "worksteal", workers=5,
            is_waiting=True, is_delicate=True,
        ),
        Part(_LOWEST, 20, ["scripts/setup", ".venv-lowest", "redis==6.4.0"], is_waiting=True),
        measured(
            "worker: kills, zombies, faults", 280, "-m", "slow", "tests/workers",
            workers=4, is_waiting=True, needs=[_PEERS],
        ),
        # Thousands of short tests, for each of which pytest-xdist takes a millisecond.
        measured("core: contract", 110, "-m", "not slow", _CONTRACT, workers=0),
        measured("core: contract, on the other servers", 160, "-m", "slow", _CONTRACT, workers=0),
        measured(
            "core: faults, properties", 280, "tests/faults", "tests/properties",
            "--deselect", _RANDOM_SIGNALS, *(f"--ignore={path}" for path in _GROUPS),
            workers=4, is_waiting=True,
        ),
        measured("worker: in process, on every server", 200, "-m", "not slow", "tests/workers"),
        measured(
            "browser: the pages in Chromium, the demo", 120, "tests/browser", "--dist", "loadfile",
            needs=[_PEERS],
        ),
        measured("migrate: from the other systems", 140, "tests/migrate", needs=[_PEERS]),
        Part(
            "core: random signals, documents", 300,
            _tests(_RANDOM_SIGNALS, "tests/documents", "tests/operations", workers=4),
            is_waiting=True, needs=[_PEERS],
        ),
        measured(
            "web: the API, rest-rsmq, callers; history, undo, explanations", 130, "tests/web",
            "tests/history", "tests/trash", "tests/explain",
            "--ignore=tests/web/test_failover.py", "--ignore=tests/web/sqs", is_waiting=True,
        ),
        measured("web: clients of SQS", 90, "tests/web/sqs", is_waiting=True),
        measured(
            "features: schedules, tasks, jobs, Django, admission", 120, "tests/schedules",
            "tests/tasks", "tests/asgi", "tests/jobs", "tests/django", "tests/admission",
            workers=3, is_waiting=True,
        ),
        Part("compat: the other clients", 80, _tests("compat"), needs=[_PEERS]),
        measured("cli: the program, in terminals too", 100, "tests/cli", needs=[_PEERS]),
        Part("spark: readers and writers, no JVM", 110, _tests("-m", "not spark", "tests/spark")),
        measured(
            "doctor, transfer, pyrsmq, rfq, opentelemetry", 70, "tests/doctor", "tests/transfer",
            "tests/body_stores", "tests/pyrsmq", "tests/compat", "tests/tracing", needs=[_PEERS],
        ),
        Part(
            "bench: that it runs", 60, ["scripts/bench", "--quick", "--output", str(folder)],
            needs=[_PEERS],
        ),
        Part("packaging: the wheel, on each Python", 50, _tests("tests/packaging", workers=0)),
        measured(
            "push: answers, safety, breaker, kills", 50, "tests/push",
            "--ignore=tests/push/test_servers.py", workers=4, is_waiting=True, needs=[_PEERS],
        ),
        Part(
            "core: the lowest redis-py", 40,
            _tests(
                "-m", "redis and not slow",
                *(f"{_CONTRACT}/test_{name}.py" for name in ("messages", "waiting", "consuming")),
                "tests/faults/test_replies_dropped.py", "tests/faults/test_cancellation.py",
                environment=".venv-lowest",
            ),
            needs=[_LOWEST],
        ),
        Part(
            "core: the lowest redis-py, other servers", 50,
            _tests(
                # Not other versions of Redis, nor rights: the commands are those of .venv.
                "-m", "slow", "-k", "cluster or redis-py or test_waiting",
                f"{_CONTRACT}/test_messages.py", "tests/faults/test_waiting.py",
                environment=".venv-lowest",
            ),
            is_waiting=True, needs=[_LOWEST],
        ),
        Part("docs: the site, its links", 20, ["scripts/docs", "--strict"]),
        measured(
            "transactions: SQLAlchemy, an outbox, kills", 30, "tests/transactions",
            workers=0, is_waiting=True, needs=[_PEERS],
        ),
    ]  # fmt: skip
    if is_measured:
        parts.append(measured("core: unit, measured", 30, "tests/unit"))
        report = (
            ".venv/bin/coverage combine -q && .venv/bin/python scripts/checks/coverage_report.py"
        )
        parts.append(
            Part("coverage of rsmq/, without Spark", 20, ["sh", "-c", report], needs=measured_names)
        )
    return parts
