"""docs/spark.md: its examples run, and its lists are complete."""

from __future__ import annotations

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
from rsmq.spark.write.sink_options import SINK_OPTIONS
from tests.documents.pages import PAGES, read_blocks
from tests.documents.player import Player
from tests.spark.session.conftest import ENVIRONMENT

TEXT = PAGES["spark.md"].read_text()
BLOCKS = [each for each in read_blocks("spark.md") if each.how != "shown"]
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


@pytest.fixture
def empty_server(server):
    """The server, without a key."""
    with server.raw() as raw:
        raw.flushall()
        yield server
        raw.flushall()


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


def test_blocks_run_as_pasted(empty_server, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pipelines, "session", lambda *_: UnstoppableSession(spark))
    monkeypatch.setenv("RSMQ_URL", empty_server.url)
    player = SparkPlayer(empty_server, tmp_path, ENVIRONMENT, is_silent=False)
    number = next(n for n, block in enumerate(BLOCKS) if block.language == "sh")
    examples, archive, jobs = BLOCKS[:number], BLOCKS[number], BLOCKS[number + 1 :]
    player.play(examples)
    with RSMQ.from_url(empty_server.url) as queues:
        assert queues.get_queue_attributes("events").messages == 0
        queues.send_messages("events", ["one", "two"])
        player.play([archive])
        assert len(list((tmp_path / "archive").glob("date=*"))) == 1
        assert queues.get_queue_attributes("events").messages == 0

        queues.create_queue("events-dead")
        queues.create_queue("events-rest")
        queues.create_queue("clean")
        queues.send_messages("events", ["three"])
        queues.send_messages("events-dead", ["a timeout", "another reason"])
        player.play(jobs)
        assert sorted(each.body for each in queues.peek_messages("events-again")) == ["one", "two"]
        assert [each.body for each in queues.peek_messages("clean")] == ["THREE"]
        assert [each.body for each in queues.peek_messages("events-rest")] == ["another reason"]
        assert (tmp_path / "report").is_dir()
    with RSMQ.from_url(empty_server.url.removesuffix("/0") + "/1") as copied:
        assert {"events", "events-again", "events-dead"} <= set(copied.list_queues())
    drained = "".join(path.read_text() for path in (tmp_path / "drained").rglob("*.json"))
    assert "a timeout" in drained


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
    } - {"maxOffsetsPerTrigger"}  # fmt: skip
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
