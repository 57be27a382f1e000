"""The commands in the README run unchanged, and its tables agree with the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rsmq.cli.app.command_table import ALIASES, COMMANDS
from rsmq.cli.app.exit_codes import MEANINGS
from tests.cli.conftest import processes  # noqa: F401 - a fixture

TEXT = Path(__file__).parents[2].joinpath("README.md").read_text()
SECTION = TEXT[TEXT.index("## The command line") :].partition("\n## ")[0]
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
BLOCKS = [text for language, text in FENCED if not language]


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{n}" for n in range(len(BLOCKS))])
def test_a_block_of_commands_runs(block, processes, rsmq):  # noqa: F811 - as above
    if "create orders " not in block:
        rsmq.create_queue("orders")
    code, _, error = processes.shell(f"set -e\n{block}")

    assert (code, error) == (0, "")


@pytest.mark.parametrize("heading", ["Doctor", "Moving over"])
def test_the_commands_of_other_sections_run(heading, processes, rsmq):  # noqa: F811 - as above
    """Exit code 1 is a finding on the test server, or a missing topic of rfq."""
    rsmq.create_queue("orders")
    section = TEXT[TEXT.index(f"## {heading}\n") :].partition("\n## ")[0]
    block = re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    for line in block.splitlines():
        code, out, error = processes.shell(line)
        assert (code in {0, 1}, error) == (True, ""), line
        assert out


def test_the_profiles_are_read(tmp_path, monkeypatch):
    from rsmq.cli.app.profiles import read_config

    (example,) = (text for language, text in FENCED if language == "toml")
    (tmp_path / "config.toml").write_text(example)
    monkeypatch.setenv("RSMQ_CONFIG", str(tmp_path / "config.toml"))
    config = read_config()

    assert (config.default, set(config.profiles)) == ("local", {"local", "shop"})


def test_the_tables_agree_with_the_program():
    rows = re.findall(r"^\| (`.*?) \|", SECTION, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    codes = dict(re.findall(r"^\| (\d+) \| ([^;|]*)", SECTION, re.MULTILINE))

    assert named == {*COMMANDS, *ALIASES}
    assert {int(code): text.strip() for code, text in codes.items()} == {
        int(code): text.partition(";")[0] for code, text in MEANINGS.items()
    }
