"""The README on Spark: its examples run, and its lists are complete."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq import RSMQ
from rsmq.cli.commands import pipeline
from rsmq.cli.commands.pipeline_arguments import make_parser
from rsmq.spark import pipelines
from rsmq.spark.connection_options import CONNECTION_OPTIONS
from rsmq.spark.schema import make_fields
from rsmq.spark.sink_options import SINK_OPTIONS
from rsmq.spark.source_options import SNAPSHOT_OPTIONS, SOURCE_OPTIONS, STREAM_OPTIONS
from tests.spark.session.conftest import ENVIRONMENT, ROOT

README = (ROOT / "README.md").read_text()
SECTION = README[README.index("## Spark") :].partition("\n## ")[0] + "\n"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^rsmq-pipeline .*$", SECTION, re.MULTILINE)


class UnstoppableSession:
    """A session that a command can't stop."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


def test_readme_examples_run_as_pasted(server, spark, tmp_path, monkeypatch, capsys):
    assert len(BLOCKS) == 1
    with RSMQ.from_url(server.url) as rsmq:
        try:
            program = BLOCKS[0].replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
            result = subprocess.run(
                [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, **ENVIRONMENT},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (result.returncode, result.stdout) == (0, "1000\n"), result.stderr
            assert rsmq.get_queue_attributes("events").messages == 0

            rsmq.send_messages("events", ["one", "two"])
            monkeypatch.chdir(tmp_path)
            monkeypatch.setattr(pipelines, "session", lambda *_: UnstoppableSession(spark))
            name, *arguments = shlex.split(
                COMMANDS[0]
                .replace("127.0.0.1:6379", f"127.0.0.1:{server.port}")
                .replace("archive/", str(tmp_path / "archive"))
            )
            assert Path(sys.executable).with_name(name).exists()
            assert pipeline.main(arguments) == 0
            assert "messages: 2" in capsys.readouterr().out
            assert len(list((tmp_path / "archive").glob("date=*"))) == 1
        finally:
            rsmq.delete_queue("events")


def test_table_of_jobs_is_complete_and_its_commands_parse():
    listed = re.findall(r"^\| `rsmq-pipeline (\w+) ?(.*?)` \|", SECTION, re.MULTILINE)
    (commands,) = [
        action.choices for action in make_parser()._actions if getattr(action, "choices", None)
    ]

    assert [name for name, _ in listed] == list(commands)
    for shown in COMMANDS:
        make_parser().parse_args(shlex.split(shown)[1:])
    assert {shlex.split(shown)[1] for shown in COMMANDS} == set(commands)
    for name, arguments in listed:
        make_parser().parse_args([name, *shlex.split(arguments.replace("[", "").replace("]", ""))])


def test_every_option_and_column_is_listed():
    options = {
        *CONNECTION_OPTIONS, *SOURCE_OPTIONS, *SNAPSHOT_OPTIONS, *STREAM_OPTIONS, *SINK_OPTIONS,
    } - {"maxOffsetsPerTrigger"}  # fmt: skip
    rows = re.findall(r"^\| (`.*) \|$", SECTION, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert options <= listed
    assert set(make_fields(is_binary=False)) <= listed


def test_readme_figures_are_the_measured_ones():
    measured = (ROOT / "scripts" / "benchmark" / "measured" / "bench-spark.md").read_text()
    fast = SECTION[SECTION.index("### How fast") :]
    lines = [line for line in fast.splitlines() if line.startswith("|")]

    assert len(lines) > 10
    assert all(line in measured.splitlines() for line in lines)
    assert "1,000,000 messages" in measured


def test_readme_links_have_a_heading():
    for link in re.findall(r"\]\(#([\w-]+)\)", README):
        headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
        assert link in {heading.lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("module", ["rsmq.spark", "rsmq.spark.pipelines"])
def test_exported_names_exist_in_order(module):
    import importlib

    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in found.__all__)
    assert found.__all__ == sorted(found.__all__)
