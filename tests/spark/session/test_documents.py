"""docs/spark.md: its examples run, and its lists are complete."""

from __future__ import annotations

import dataclasses
import re
import shlex
from datetime import UTC, datetime

import pytest

from rsmq import RSMQ
from rsmq.cli import run_pipeline
from rsmq.cli.app.call import Call
from rsmq.cli.commands.pipeline import pipeline
from rsmq.spark import pipelines
from rsmq.spark.connection_options import CONNECTION_OPTIONS
from rsmq.spark.read.schema import make_fields
from rsmq.spark.read.source_options import SNAPSHOT_OPTIONS, SOURCE_OPTIONS, STREAM_OPTIONS
from rsmq.spark.write.sink_options import SEND_SINK_OPTIONS, SINK_OPTIONS
from tests.documents.pages import PAGES, read_blocks
from tests.documents.player import Player
from tests.spark.session.conftest import ENVIRONMENT

TEXT = PAGES["spark.md"].read_text()
BLOCKS = [each for each in read_blocks("spark.md") if each.how != "shown"]
*EXAMPLES, ARCHIVE, FUNCTION, JOBS = BLOCKS
COMMANDS = [
    line
    for block in BLOCKS
    if block.language == "sh"
    for line in block.code.splitlines()
    if line.startswith("rsmq-pipeline ")
]


class UnstoppableSession:
    """A session that a command can't stop."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


class SparkPlayer(Player):
    """Runs the commands of ``rsmq-pipeline`` inside this process, in its session."""

    def run_commands(self, block, code):
        for line in code.splitlines():
            if not line.startswith("rsmq-pipeline "):
                super().run_commands(block, line)
                continue
            today = datetime.now(UTC).date().isoformat()
            # Relative paths would be those of the folder in which the JVM was started.
            arguments = [
                str(self.folder / each) if re.search(r"\w(/|-checkpoint)$", each) else each
                for each in shlex.split(line.replace("2026-11-21", today))[1:]
            ]
            assert run_pipeline(arguments) == 0, line


@pytest.fixture
def player(empty_server, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pipelines, "session", lambda *_: UnstoppableSession(spark))
    monkeypatch.setenv("RSMQ_URL", empty_server.url)
    return SparkPlayer(empty_server, tmp_path, ENVIRONMENT, is_silent=False)


@pytest.fixture
def queues(empty_server):
    """A client; the queues that the jobs read have messages."""
    with RSMQ.from_url(empty_server.url) as queues:
        for name in ("events", "events-dead", "events-rest"):
            queues.create_queue(name)
        queues.send_messages("events", ["one", "two"])
        queues.send_messages("events-dead", ["a timeout", "another reason"])
        yield queues


def play_job(player, name):
    """Run the line of the block of jobs that has this command."""
    (line,) = [line for line in JOBS.code.splitlines() if line.split()[1] == name]
    player.play([dataclasses.replace(JOBS, code=line)])


def bodies(queues, name):
    return sorted(each.body for each in queues.peek_messages(name))


def test_examples_run_as_pasted(player, empty_server):
    player.play(EXAMPLES)

    with RSMQ.from_url(empty_server.url) as queues:
        assert queues.get_queue_attributes("events").messages == 0


def test_messages_are_archived_and_replayed(player, queues, tmp_path):
    player.play([ARCHIVE])
    assert len(list((tmp_path / "archive").glob("date=*"))) == 1
    assert bodies(queues, "events") == []

    play_job(player, "replay")
    assert bodies(queues, "events-again") == ["one", "two"]


def test_a_namespace_is_migrated(player, queues, empty_server):
    play_job(player, "migrate")

    with RSMQ.from_url(empty_server.url.removesuffix("/0") + "/1") as copied:
        assert copied.list_queues() == ["events", "events-dead", "events-rest"]


def test_messages_are_transformed(player, queues):
    player.play([FUNCTION])
    play_job(player, "transform")

    assert bodies(queues, "clean") == ["ONE", "TWO"]


def test_dead_letters_are_redriven(player, queues):
    play_job(player, "redrive")

    assert bodies(queues, "events") == ["a timeout", "one", "two"]
    assert bodies(queues, "events-rest") == ["another reason"]


def test_a_report_is_written(player, queues, tmp_path):
    play_job(player, "report")

    assert (tmp_path / "report").is_dir()
    assert (tmp_path / "report.html").is_file()


def test_a_queue_is_drained(player, queues, tmp_path):
    play_job(player, "drain")

    drained = "".join(path.read_text() for path in (tmp_path / "drained").rglob("*.json"))
    assert '"one"' in drained
    assert '"two"' in drained


def test_every_block_is_run():
    jobs = {line.split()[1] for line in JOBS.code.splitlines()}

    assert [*EXAMPLES, ARCHIVE, FUNCTION, JOBS] == BLOCKS
    assert jobs == {"replay", "migrate", "transform", "redrive", "report", "drain"}


def test_table_of_jobs_is_complete_and_its_commands_parse():
    listed = re.findall(r"^\| `rsmq-pipeline (\w+) ?(.*?)` \|", TEXT, re.MULTILINE)
    commands = pipeline.commands
    shown = [shlex.split(line)[1:] for line in COMMANDS]

    assert [name for name, _ in listed] == list(commands)
    assert {words[0] for words in shown} == set(commands)
    of_table = [
        [name, *shlex.split(arguments.replace("[", "").replace("]", ""))]
        for name, arguments in listed
    ]
    for name, *arguments in (*shown, *of_table):
        commands[name].make_context(name, arguments, obj=Call())


def test_every_option_and_column_is_listed():
    options = {
        *CONNECTION_OPTIONS, *SOURCE_OPTIONS, *SNAPSHOT_OPTIONS, *STREAM_OPTIONS, *SINK_OPTIONS,
    } - {"maxOffsetsPerTrigger", *SEND_SINK_OPTIONS}  # fmt: skip
    rows = re.findall(r"^\| (`.*) \|$", TEXT, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert options <= listed
    assert set(make_fields(is_binary=False)) <= listed


@pytest.mark.parametrize("module", ["rsmq.spark", "rsmq.spark.pipelines"])
def test_exported_names_exist_in_order(module):
    import importlib

    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in found.__all__)
    assert found.__all__ == sorted(found.__all__)
