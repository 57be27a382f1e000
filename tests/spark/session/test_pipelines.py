"""The jobs, as functions and as commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions

from rsmq import BYTES, JSON, RSMQ, QueueNotFound
from rsmq.body_stores import RedisStore
from rsmq.cli import run_pipeline
from rsmq.cli.commands.pipeline import format_rows
from rsmq.codecs import Stored
from rsmq.spark import InvalidOption, pipelines
from rsmq.vocabulary.queues import COPIED_ATTRIBUTES
from rsmq.vocabulary.stored import STORED_FACTS, Carrier
from tests.spark.session.conftest import ENVIRONMENT, JAVA_OPTIONS
from tests.stored_facts import FactKeys


@pytest.fixture
def queues(server, ns):
    return pipelines.Queues(server.url, ns)


@pytest.fixture
def reports():
    """The progress that a job has reported."""
    return []


def state(raw, ns):
    keys = [key for key in raw.keys(f"{ns}:*") if b":x:" not in key and not key.endswith(b"QUEUES")]
    return {
        key.removeprefix(ns.encode()): raw.hgetall(key)
        if key.endswith(b":Q")
        else raw.zrange(key, 0, -1, withscores=True)
        for key in keys
    }


def bodies(raw, ns, queue):
    ids = raw.zrange(f"{ns}:{queue}", 0, -1)
    return raw.hmget(f"{ns}:{queue}:Q", ids) if ids else []


def test_an_archive_is_moved_and_replayed_in_order(spark, rsmq, raw, ns, queues, tmp_path, reports):
    rsmq.create_queue("q")
    sent = [b"%04d \xff" % n for n in range(2500)]
    for begin in range(0, 2500, 500):
        rsmq.send_messages("q", sent[begin : begin + 500], codec=BYTES)
    path = str(tmp_path / "archive")
    done = pipelines.archive(spark, queues, "q", path, batch=1000, tell=reports.append)

    assert (done.messages, done.lost) == (2500, 0)
    assert [progress.messages for progress in reports] == [1000, 2000, 2500]
    assert rsmq.get_queue_attributes("q").messages == 0
    days = {datetime.now(UTC).date().isoformat()}
    assert {folder.name for folder in Path(path).glob("date=*")} == {f"date={d}" for d in days}

    rsmq.create_queue("again")
    (day,) = days
    assert pipelines.replay(spark, path, queues, "again", date=day).messages == 2500
    assert bodies(raw, ns, "again") == sent
    one = pipelines.replay(
        spark, path, queues, where="CAST(message AS STRING) LIKE '0007%'", write_id="seven"
    )
    assert (one.messages, bodies(raw, ns, "q")) == (1, sent[7:8])
    assert pipelines.replay(spark, path, queues, write_id="seven").done_before


def test_stopped_archive_acknowledges_its_last_batch(spark, rsmq, raw, ns, queues, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])

    def stop(_):
        raise KeyboardInterrupt

    path = str(tmp_path / "archive")
    done = pipelines.archive(spark, queues, "q", path, follow=True, tell=stop)
    assert done.messages == 2
    assert raw.zcard(f"{ns}:q") == 0
    assert raw.exists(f"{ns}:q:x:leases") == 0
    assert len(list(Path(path, "_checkpoint", "commits").glob("0"))) == 1


def test_archive_of_kept_messages_is_restored_unchanged(spark, rsmq, raw, ns, queues, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "c"])
    rsmq.send_message("q", "later", delay=100)
    rsmq.receive_message("q", vt=200)
    before = state(raw, ns)
    path = str(tmp_path / "archive")

    assert pipelines.archive(spark, queues, "q", path, keep=True, text=True).messages == 4
    assert state(raw, ns) == before
    rsmq.purge_queue("q")
    for _ in range(2):
        assert pipelines.replay(spark, path, queues, restore=True).messages == 4
    before[b":q:Q"][b"totalsent"] = b"8"
    assert state(raw, ns) == before


def test_an_archive_does_not_have_references_to_stored_bodies(
    spark, rsmq, server, queues, tmp_path
):
    """The objects are deleted when no message names them."""
    rsmq.create_queue("q")
    codec = Stored(JSON, store=RedisStore(server.url), above=20)
    rsmq.send_message("q", "x" * 100, codec=codec)
    for keep in (True, False):
        with pytest.raises(PySparkException, match="stored elsewhere"):
            pipelines.archive(spark, queues, "q", str(tmp_path / str(keep)), keep=keep)
    assert rsmq.get_queue_attributes("q").messages == 1
    assert pipelines.report(spark, queues).queues


def test_jobs_have_two_partitions_for_each_processor_of_the_executors(
    spark, rsmq, queues, tmp_path, monkeypatch
):
    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 5)
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x"] * 100)
    copy = tmp_path / "copy"
    pipelines.archive(spark, queues, "q", str(copy), keep=True)
    assert len(list(copy.rglob("*.parquet"))) == 10


def test_both_reads_of_a_report_have_partitions_for_the_executors(
    spark, rsmq, raw, ns, queues, monkeypatch
):
    monkeypatch.setattr(type(spark.sparkContext), "defaultParallelism", 5)
    store_dead_letters(rsmq, raw, ns, "dead", [(1_767_225_600_000, {"worker": "w"})])
    numbers = []
    make_options = pipelines.Queues.options

    def record(self, **more):
        if "subscribe" in more:
            numbers.append(more.get("numPartitions"))
        return make_options(self, **more)

    monkeypatch.setattr(pipelines.Queues, "options", record)
    assert pipelines.report(spark, queues).dead_by_worker[0]["messages"] == 1
    assert numbers == [10, 10]


def test_lines_of_json_are_sent_as_they_are(spark, rsmq, raw, ns, queues, tmp_path):
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"n": 1, "text": "ä"}\n{"n": 2, "text": null}\n')
    rsmq.create_queue("q")

    assert pipelines.replay(spark, str(lines), queues, "q", kind="json").messages == 2
    assert sorted(json.loads(body)["n"] for body in bodies(raw, ns, "q")) == [1, 2]


def test_migration_copies_a_namespace_completely(spark, server, rsmq, raw, ns, queues, reports):
    for name in ("q", "r", "dead", "empty"):
        rsmq.create_queue(name, vt=7, delay=3, maxsize=-1)
    rsmq.set_dead_letter_policy("q", "dead", 5)
    rsmq.send_messages("q", [f"body {n}" for n in range(1500)], delay=0)
    rsmq.send_messages("r", [b"\xff" * 70_000], codec=BYTES)
    rsmq.receive_messages("q", 100, vt=500)
    rsmq.pop_message("q")
    raw.hset(f"{ns}:q:Q", "created", 1_500_000_000)
    target = pipelines.Queues(server.url, f"{ns}-other")
    before = state(raw, ns)
    for _ in range(2):
        done = pipelines.migrate(spark, queues, target, tell=reports.append)

        assert done.verified
        assert {q.queue: (q.messages, q.found) for q in done.queues} == {
            "q": (1499, 1499), "r": (1, 1), "dead": (0, 0), "empty": (0, 0),
        }  # fmt: skip
        after = state(raw, f"{ns}-other")
        for key in (b":q:Q", b":r:Q", b":dead:Q", b":empty:Q"):
            for field in (b"modified", b"created"):
                if key != b":q:Q" or field == b"modified":
                    after[key].pop(field, None)
                    before[key].pop(field, None)
        assert after == before

    with RSMQ.from_url(server.url, ns=f"{ns}-other") as other:
        changed = other.receive_message("q", vt=100)
        assert changed
        done = pipelines.migrate(spark, queues, target, ["q"])
        assert not done.verified
        assert (done.queues[0].messages, done.queues[0].found) == (1499, 1499)
        for name in ("q", "r", "dead", "empty"):
            other.delete_queue(name)


def test_a_migration_keeps_limits_expiry_and_pauses(spark, server, rsmq, raw, ns, queues):
    """Of the queue and of each message; a target that has others is not the same."""
    rsmq.create_queue("q", keep=86_400)
    rsmq.create_queue("dead")
    rsmq.set_dead_letter_policy("q", "dead", 5)
    rsmq.set_queue_attributes("q", expired="dead-letter")
    rsmq.set_queue_limits("q", max_running=3, rate="9/m")
    rsmq.pause_queue("q")
    raw.hset(f"{ns}:q:Q", "x:sqs", '{"tags": {"team": "a"}}')
    rsmq.send_message("q", "plain")
    rsmq.send_message("q", "limited", expires=9000, max_retries=2)
    rsmq.send_message("q", "retries", max_retries=0)
    target = pipelines.Queues(server.url, f"{ns}-other")
    settings = {each.field for each in COPIED_ATTRIBUTES} - {"x:paused"}
    fields = (*settings, "x:limited", "x:sqs")

    for _ in range(2):
        assert pipelines.migrate(spark, queues, target).verified
        assert raw.hmget(f"{ns}-other:q:Q", fields) == raw.hmget(f"{ns}:q:Q", fields)
        assert raw.hexists(f"{ns}-other:q:Q", "x:paused")
        assert raw.hgetall(f"{ns}-other:q:x:limits") == raw.hgetall(f"{ns}:q:x:limits")

    of_sqs = "attributes and tags that only SQS has"
    changes = (
        (
            f"{ns}-other:q:Q",
            "x:keep",
            b"60",
            [("q", "keep", "86400 at the source, 60")],
        ),
        (f"{ns}-other:q:x:limits", raw.hkeys(f"{ns}:q:x:limits")[0], b"9:", []),
        (
            f"{ns}-other:q:Q",
            "x:paused",
            b"",
            [("q", "paused", "True at the source, False")],
        ),
        (
            f"{ns}-other:q:Q",
            "x:sqs",
            b"{}",
            [("q", "x:sqs", f"{of_sqs} are not carried: the queue keeps its own, or none")],
        ),
    )
    for key, field, value, lost in changes:
        before = raw.hget(key, field)
        raw.hset(key, field, value) if value else raw.hdel(key, field)
        done = pipelines.migrate(spark, queues, target)
        assert not done.verified
        assert [
            (each.queue, each.name, each.reason.removesuffix(" at the target"))
            for each in done.not_carried
        ] == lost
        raw.hset(key, field, before)
    assert pipelines.migrate(spark, queues, target).verified


def test_jobs_carry_the_facts_beside_messages_that_the_table_says(
    spark, server, rsmq, raw, ns, queues, tmp_path
):
    rsmq.create_queue("q", vt=60)
    FactKeys(raw, ns).fill(rsmq)
    facts = {each.name for each in STORED_FACTS}
    left = {
        carrier: {each.name for each in STORED_FACTS if carrier in each.left_by}
        for carrier in (Carrier.SPARK_MIGRATE, Carrier.ARCHIVE)
    }

    done = pipelines.migrate(spark, queues, pipelines.Queues(server.url, f"{ns}-other"))
    keys = FactKeys(raw, f"{ns}-other")
    assert done.verified
    assert {name for name in facts if not keys.has(name)} == left[Carrier.SPARK_MIGRATE]
    assert {each.name for each in done.not_carried} == left[Carrier.SPARK_MIGRATE]
    assert all(" are not carried: " in each.reason for each in done.not_carried)

    pipelines.archive(spark, queues, "q", str(tmp_path / "archive"), keep=True)
    target = pipelines.Queues(server.url, f"{ns}-third")
    pipelines.replay(spark, str(tmp_path / "archive"), target, restore=True, create=True)
    keys = FactKeys(raw, f"{ns}-third")
    assert {name for name in facts if not keys.has(name)} == left[Carrier.ARCHIVE]


def test_session_registers_the_format_once(spark, monkeypatch):
    """Spark warns about a data source that replaces another one."""
    registered = []
    module = sys.modules["rsmq.spark.pipelines.session"]
    monkeypatch.setattr(module, "register", registered.append)
    assert pipelines.session() is spark
    assert registered == []
    monkeypatch.setattr(module, "_has_format", lambda _: False)  # as if Spark did not find it
    assert registered == [pipelines.session()]


def test_migration_to_the_source_is_refused(spark, queues):
    with pytest.raises(InvalidOption, match="is the source itself"):
        pipelines.migrate(spark, queues, queues)


def test_a_job_that_would_read_what_it_sends_is_refused(spark, rsmq, raw, ns, queues, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_message("q", "a")
    before = state(raw, ns)
    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(InvalidOption, match="'q' is read by this job itself"):
        pipelines.transform(spark, queues, "q", queues, "q", lambda x: x, checkpoint=checkpoint)
    with pytest.raises(InvalidOption, match="'q' is read by this job itself"):
        pipelines.redrive(spark, queues, "q", "'r'", "q", checkpoint=checkpoint)
    assert state(raw, ns) == before
    assert not Path(checkpoint).exists()


def test_ctrl_c_ends_a_job_that_does_not_follow_and_is_raised(
    spark, rsmq, raw, ns, queues, tmp_path
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        # All messages are in one batch: the next run would repeat an unfinished one.
        pipelines.drain(spark, queues, "q", str(tmp_path / "files"), tell=stop)
    assert raw.exists(f"{ns}:q:x:leases") == 0


@pytest.fixture
def start_command(server, ns, tmp_path):
    """Return a function that starts ``rsmq-pipeline`` in a process, with its output in a file."""
    processes = []

    def start(*arguments):
        log = tmp_path / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "rsmq.cli.commands.pipeline", *arguments,
                    "--url", server.url, "--ns", ns, "--master", "local[1,1]",
                ],
                env={**os.environ, **ENVIRONMENT}, stdout=file, stderr=file, cwd=tmp_path,
                start_new_session=True,
            )  # fmt: skip
        processes.append(process)
        return process, log

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_failing_udf_is_one_line(rsmq, start_command, tmp_path):
    rsmq.create_queue("q")
    rsmq.create_queue("r")
    rsmq.send_message("q", "a")
    # Such a UDF can be made only when there is a session.
    (tmp_path / "shop.py").write_text(
        "from pyspark.sql import functions\n"
        "@functions.udf('string')\n"
        "def fail(text):\n"
        "    raise RuntimeError('bad row ' + text)\n"
        "def clean(frame):\n"
        "    return frame.select(fail('message').alias('message'))\n"
    )
    process, log = start_command("transform", "q", "shop:clean", "--to", "r", "--checkpoint", "c")
    assert process.wait() == 1
    assert log.read_text() == (
        "rsmq-pipeline: RuntimeError: bad row a. --verbose shows all that Spark writes.\n"
    )


def test_sigterm_ends_a_job_that_follows_without_messages_in_flight(
    rsmq, raw, ns, start_command, tmp_path
):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    process, log = start_command("archive", "q", "files", "--follow")
    while "batch 0" not in log.read_text() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0, log.read_text()
    assert log.read_text().splitlines()[1:] == ["messages: 2", "lost: 0", "path: files"]
    assert raw.zcard(f"{ns}:q") == 0
    assert raw.exists(f"{ns}:q:x:leases") == 0


def test_transform_sends_the_rows_of_a_function(spark, rsmq, raw, ns, queues, tmp_path):
    for name in ("q", "even", "odd"):
        rsmq.create_queue(name)
    rsmq.send_messages("q", [str(n) for n in range(100)])

    def split(frame):
        return frame.select(
            functions.concat(functions.lit("n"), "message").alias("message"),
            functions.expr("if(message % 2 = 0, 'even', 'odd')").alias("queue"),
            functions.lit("a column more"),
        )

    checkpoint = str(tmp_path / "checkpoint")
    done = pipelines.transform(spark, queues, "q", queues, None, split, checkpoint=checkpoint)
    assert done.messages == 100
    assert Counter(bodies(raw, ns, "even")) == Counter(b"n%d" % n for n in range(0, 100, 2))
    assert len(bodies(raw, ns, "odd")) == 50

    with pytest.raises(InvalidOption, match="without the column message"):
        pipelines.transform(
            spark, queues, "q", queues, "even", lambda frame: frame.select("id"),
            checkpoint=str(tmp_path / "other"),
        )  # fmt: skip


def test_redrive_chooses_the_queue_by_an_expression(spark, rsmq, raw, ns, queues, tmp_path):
    for name in ("dead", "orders", "rest"):
        rsmq.create_queue(name)
    rsmq.send_messages("dead", [b"timeout", b"broken", b"nowhere", b"\xff timeout"], codec=BYTES)
    reason = (
        "CASE WHEN message LIKE '%timeout%' THEN 'orders' "
        "WHEN message = 'nowhere' THEN 'no-such-queue' END"
    )
    done = pipelines.redrive(
        spark, queues, "dead", reason, "rest", checkpoint=str(tmp_path / "checkpoint")
    )

    assert done.messages == 4
    assert Counter(bodies(raw, ns, "orders")) == Counter([b"timeout", b"\xff timeout"])
    assert Counter(bodies(raw, ns, "rest")) == Counter([b"broken", b"nowhere"])
    assert rsmq.get_queue_attributes("dead").messages == 0
    with pytest.raises(QueueNotFound):
        pipelines.redrive(spark, queues, "dead", reason, "nowhere", checkpoint="unused")
    for wrong in ("orders", "CASE WHEN"):
        with pytest.raises(InvalidOption, match=r"to: .* single quotes, as in 'orders'"):
            pipelines.redrive(spark, queues, "dead", wrong, "rest", checkpoint="unused")


def test_folder_belongs_to_one_checkpoint_and_one_kind_of_run(spark, rsmq, queues, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    path = str(tmp_path / "archive")
    pipelines.archive(spark, queues, "q", path)
    rsmq.send_messages("q", ["c"])
    for job in (
        lambda: pipelines.archive(spark, queues, "q", path, checkpoint=str(tmp_path / "new")),
        lambda: pipelines.drain(spark, queues, "q", path, checkpoint=str(tmp_path / "new")),
        lambda: pipelines.archive(spark, queues, "q", path, keep=True),
    ):
        with pytest.raises(InvalidOption, match="another folder"):
            job()
    copy = str(tmp_path / "copy")
    pipelines.archive(spark, queues, "q", copy, keep=True)
    with pytest.raises(InvalidOption, match="no stream wrote"):
        pipelines.archive(spark, queues, "q", copy)

    other = str(tmp_path / "other")
    for job in (pipelines.archive, pipelines.drain):
        with pytest.raises(InvalidOption, match=f"{other} lacks batches which"):
            job(spark, queues, "q", other, checkpoint=f"{path}/_checkpoint")
    with pytest.raises(InvalidOption, match=r"files of another kind, as part-.*\.parquet"):
        pipelines.drain(spark, queues, "q", path, kind="csv")

    assert rsmq.get_queue_attributes("q").visible_messages == 1
    pipelines.archive(spark, queues, "q", path)
    assert spark.read.parquet(path).count() == 3
    rsmq.send_messages("q", ["d"])
    pipelines.drain(spark, queues, "q", str(tmp_path / "lines"), kind="text")
    rsmq.send_messages("q", ["e"])
    with pytest.raises(InvalidOption, match=r"files of another kind, as part-.*\.txt"):
        pipelines.drain(spark, queues, "q", str(tmp_path / "lines"), kind="json")
    pipelines.drain(spark, queues, "q", str(tmp_path / "lines"), kind="text")
    assert spark.read.text(str(tmp_path / "lines")).count() == 2


def test_bodies_that_are_not_utf8_are_drained(spark, rsmq, queues, tmp_path):
    rsmq.create_queue("q")
    for kind in ("json", "parquet"):
        rsmq.send_messages("q", [b"\xff\x00", b"text"], codec=BYTES)
        pipelines.drain(spark, queues, "q", str(tmp_path / kind), kind=kind)
    rows = spark.read.json(str(tmp_path / "json")).collect()

    assert {(row["message"], row["raw"]) for row in rows} == {
        ("\ufffd\x00", "/wA="),
        ("text", None),
    }
    rows = spark.read.parquet(str(tmp_path / "parquet")).collect()
    assert {bytes(row["message"]) for row in rows} == {b"\xff\x00", b"text"}


def test_migration_reports_different_attributes(spark, server, rsmq, ns, queues):
    rsmq.create_queue("q", vt=77)
    with RSMQ.from_url(server.url, ns=f"{ns}-other") as other:
        other.create_queue("q")
        done = pipelines.migrate(spark, queues, pipelines.Queues(server.url, f"{ns}-other"))
        other.delete_queue("q")

    assert not done.verified


def test_invalid_day_is_refused(spark, queues):
    with pytest.raises(InvalidOption, match="is a day such as"):
        pipelines.replay(spark, "nowhere", queues, date="yesterday")


def test_queue_is_drained_into_files_or_for_good(spark, rsmq, queues, tmp_path):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b", "ü"])
    rsmq.send_message("q", "hidden", delay=100)
    path = tmp_path / "drained"
    done = pipelines.drain(
        spark, queues, "q", str(path), checkpoint=str(tmp_path / "one"), kind="text"
    )

    assert done.messages == 3
    lines = [line for part in path.glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(lines) == ["a", "b", "ü"]
    assert rsmq.get_queue_attributes("q").messages == 1
    rsmq.send_message("q", "gone")
    done = pipelines.drain(spark, queues, "q", None, checkpoint=str(tmp_path / "two"), kind="none")
    assert (done.messages, rsmq.get_queue_attributes("q").messages) == (1, 1)
    with pytest.raises(InvalidOption, match="is where the files go; give a folder, or the kind"):
        pipelines.drain(spark, queues, "q", None, checkpoint="unused")
    with pytest.raises(InvalidOption, match="does not go with the kind none"):
        pipelines.drain(spark, queues, "q", "unused", kind="none", checkpoint="unused")


def test_report_has_the_figures_of_queues(spark, rsmq, raw, ns, queues, tmp_path):
    for name in ("q", "r", "empty"):
        rsmq.create_queue(name)
    rsmq.send_messages("q", ["x" * 10, "x" * 20, "x" * 30])
    rsmq.send_message("q", "later", delay=100)
    rsmq.receive_message("q", vt=100)
    for _ in range(12):
        rsmq.receive_message("r", vt=0)
    rsmq.send_message("r", "often")
    for _ in range(12):
        rsmq.receive_message("r", vt=0)
    before = state(raw, ns)
    report = pipelines.report(spark, queues, path=str(tmp_path / "report"))

    assert state(raw, ns) == before
    empty, q, r = report.queues
    assert (q["queue"], q["messages"], q["visible"], q["in_flight"], q["delayed"]) == (
        "q", 4, 2, 1, 1,
    )  # fmt: skip
    assert (q["bytes"], q["max_bytes"], q["mean_bytes"]) == (65, 30, 16.3)
    assert 0 <= q["age_p50"] <= q["age_p99"] <= q["age_max"] < 100
    assert (r["messages"], empty["messages"], empty["age_max"]) == (1, 0, None)
    assert report.receive_counts == (
        {"queue": "q", "receive_count": 0, "messages": 3},
        {"queue": "q", "receive_count": 1, "messages": 1},
        {"queue": "r", "receive_count": 10, "messages": 1},
    )
    assert sum(row["messages"] for row in report.by_minute) == 5
    kinds = Counter(Path(file).suffix for file in report.files)
    assert kinds == {".parquet": 3, ".png": 4}
    for file in report.files:
        assert Path(file).read_bytes()[:4] in (b"PAR1", b"\x89PNG")
    saved = spark.read.parquet(str(tmp_path / "report" / "queues.parquet"))
    assert saved.where("queue = 'q'").select("messages").collect() == [(4,)]
    assert (report.dead_by_cause, report.dead_by_worker, report.dead_by_minute) == ((), (), ())
    assert pipelines.report(spark, pipelines.Queues(queues.url, f"{ns}-none")).queues == ()


@pytest.fixture
def tokyo(monkeypatch):
    """The time zone of this process: not that of reports."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def store_dead_letters(rsmq, raw, ns, queue, reasons):
    """Store a dead letter for each reason, a pair of Unix ms and fields; None has none."""
    rsmq.create_queue(queue)
    ids = rsmq.send_messages(queue, ["<b>body</b>"] * len(reasons))
    fields = {"queue": "q", "text": "failed", "traceback": None, "attempts": 3}
    for id, reason in zip(ids, reasons, strict=True):
        if reason is not None:
            stored = json.dumps({**fields, **reason[1]})
            raw.hset(f"{ns}:{queue}:x:reasons", id, f"{reason[0]}:{stored}")


def test_report_has_the_dead_letters(spark, rsmq, raw, ns, queues, tmp_path, tokyo):
    minute = 1_767_225_600_000  # 2026-01-01 00:00:00 UTC
    error = {"exception": "ValueError: <script>alert(1)</script>", "worker": "w1"}
    store_dead_letters(
        rsmq, raw, ns, "q-dead",
        [
            (minute, {**error, "exception": "ValueError: first"}),
            (minute + 90_000, error),
            (minute + 30_000, {"exception": "PushFailed: 503 Busy", "worker": "w2", "status": 503}),
            (minute, {"exception": None, "text": "there is no handler", "worker": "w2"}),
            None,
        ],
    )  # fmt: skip
    store_dead_letters(rsmq, raw, ns, "r-dead", [(minute, error)])
    rsmq.create_queue("alive")
    before = state(raw, ns)
    file, folder = tmp_path / "new" / "report.html", tmp_path / "report"
    report = pipelines.report(spark, queues, html=str(file), path=str(folder))
    start = datetime(2026, 1, 1)  # noqa: DTZ001 - UTC, without a time zone
    last = start + timedelta(seconds=90)

    assert state(raw, ns) == before
    rows = [tuple(row.values()) for row in report.dead_by_cause]
    assert rows == [
        ("q-dead", "ValueError", 2, start, last, error["exception"]),
        ("q-dead", "(no reason stored)", 1, None, None, None),
        ("q-dead", "PushFailed 503", 1, start + timedelta(seconds=30),
         start + timedelta(seconds=30), "PushFailed: 503 Busy"),
        ("q-dead", "there is no handler", 1, start, start, None),
        ("r-dead", "ValueError", 1, start, start, error["exception"]),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in report.dead_by_worker] == [
        ("q-dead", "w1", 2, last),
        ("q-dead", "w2", 2, start + timedelta(seconds=30)),
        ("q-dead", "(no reason stored)", 1, None),
        ("r-dead", "w1", 1, start),
    ]
    assert [tuple(row.values()) for row in report.dead_by_minute] == [
        ("q-dead", start, "PushFailed 503", 1),
        ("q-dead", start, "ValueError", 1),
        ("q-dead", start, "there is no handler", 1),
        ("r-dead", start, "ValueError", 1),
        ("q-dead", start + timedelta(minutes=1), "ValueError", 1),
    ]
    now = datetime.now(UTC).replace(tzinfo=None)
    assert all(abs(row["minute"] - now) < timedelta(minutes=5) for row in report.by_minute)
    kinds = Counter(Path(name).suffix for name in report.files)
    assert kinds == {".parquet": 6, ".png": 7, ".html": 1}
    text = file.read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in text
    assert text.count('src="data:image/svg+xml;base64,') == 7


def test_spark_submit_runs_a_job_with_json_output(server, ns, rsmq, raw, tmp_path):
    rsmq.create_queue("q")
    rsmq.create_queue("target")
    rsmq.send_messages("q", ["a", "b"])
    (tmp_path / "work.py").write_text(
        "from pyspark.sql import functions\n\n\n"
        "def upper(frame):\n    return frame.select(functions.upper('message').alias('message'))\n"
    )
    bin = Path(sys.executable).parent
    shown = subprocess.run([bin / "rsmq-pipeline", "--file"], capture_output=True, check=True)
    result = subprocess.run(
        [
            bin / "spark-submit", "--master", "local[1]", "--driver-java-options", JAVA_OPTIONS,
            shown.stdout.decode().strip(),
            "transform", "--url", server.url, "--ns", ns, "--json", "q", "work:upper",
            "--to", "target", "--checkpoint", str(tmp_path / "checkpoint"),
        ],
        cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["progress"]["messages"] == 2
    assert lines[-1] == {"result": {"messages": 2, "lost": 0}}
    assert bodies(raw, ns, "target") == [b"A", b"B"]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (
            ["migrate", "--from-url", "redis://:secret@h/0", "--to-url", "redis://h/1"],
            2,
            "has a password",
        ),
        (["report", "--url", "http://127.0.0.1"], 2, "begins with redis://"),
        (["transform", "q", "no_such_module:f", "--checkpoint", "c"], 2, "can't be found"),
        (["transform", "q", "json", "--checkpoint", "c"], 2, "is module:function"),
        (["report", "--password-env", "NO_SUCH_VARIABLE"], 2, "NO_SUCH_VARIABLE"),
        (["report", "--url", "redis://127.0.0.1:1/0"], 4, "connecting to 127.0.0.1:1"),
    ],
)
def test_invalid_arguments_are_reported_before_spark_starts(
    arguments, status, text, capsys, monkeypatch
):
    monkeypatch.setattr(pipelines, "session", None)
    assert run_pipeline(arguments) == status
    error = capsys.readouterr().err
    assert text in error
    assert "secret" not in error


def test_missing_java_is_reported_with_a_remedy(server, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert run_pipeline(["report", "--url", server.url]) == 2
    assert "openjdk-17-jre-headless" in capsys.readouterr().err


def test_table_aligns_numbers():
    rows = (
        {"queue": "a", "messages": 1234, "age": None},
        {"queue": "bc", "messages": 5, "age": 1.25},
    )
    assert format_rows(rows) == [
        "QUEUE  MESSAGES  AGE",
        "a         1,234    -",
        "bc            5  1.2",
    ]
    hostile = ({"messages": 1, "cause": "\x1b[31mred"}, {"messages": 20, "cause": "é"})
    assert format_rows(hostile) == ["MESSAGES  CAUSE", "       1  \\x1b[31mred", "      20  é"]


@pytest.mark.parametrize(
    "name", ["archive", "replay", "migrate", "transform", "redrive", "report", "drain"]
)
def test_each_command_has_help(name, capsys):
    assert run_pipeline([name, "--help"]) == 0
    assert f"rsmq-pipeline {name}" in capsys.readouterr().out
