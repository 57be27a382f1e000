"""The documents of compat/: their lists are complete, and their examples run."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from compat import matrix, recordings, test_deviations, test_errors
from compat.peers import FOLDER, PEERS
from rsmq import errors
from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.limits import MAX_MAXSIZE, MAX_SECONDS, MIN_MAXSIZE

PROTOCOL = (FOLDER / "PROTOCOL.md").read_text()
MIGRATING = (FOLDER / "MIGRATING.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", MIGRATING, re.MULTILINE | re.DOTALL)


def first_cells(heading):
    """Return the first cells of the table below a heading."""
    section = PROTOCOL.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    return [row for row in rows if not row.startswith("---")][1:]


def test_deviations_in_the_protocol_and_tests_agree():
    rows = first_cells("Accepted deviations")
    tests = {name for name in vars(test_deviations) if name.startswith("test_")}

    assert {f"test_{row.replace('-', '_')}" for row in rows} == tests
    assert len(rows) == len(set(rows))
    referenced = json.loads((recordings.FOLDER / "deviations.json").read_text()).values()
    assert set(referenced) | set(test_errors.EXPLAINED_VALUES) <= set(rows)


def test_protocol_has_every_error_with_its_text():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PROTOCOL, re.MULTILINE))
    texts = {
        kind.code: error.text
        for kind, error in [
            (errors.MissingParameter, errors.MissingParameter("qname")),
            (errors.InvalidFormat, errors.InvalidFormat("id")),
            (errors.InvalidValue, errors.InvalidValue("maxsize", 1024, 65536)),
            (errors.MessageNotString, errors.MessageNotString()),
            (errors.MessageTooLong, errors.MessageTooLong()),
            (errors.NoAttributeSupplied, errors.NoAttributeSupplied()),
            (errors.QueueNotFound, errors.QueueNotFound("q")),
            (errors.QueueExists, errors.QueueExists("q")),
        ]
    }

    for code, text in texts.items():
        assert text in rows[code]


def test_protocol_has_every_field_and_limit():
    fields = " ".join(first_cells("Fields of the hash"))
    for field in ATTRIBUTE_FIELDS:
        assert f"`{field}`" in fields or field.startswith("x:")
    for number in (MAX_SECONDS, MIN_MAXSIZE, MAX_MAXSIZE):
        assert str(number) in PROTOCOL


def test_times_in_foreign_ids_are_parsed_as_documented():
    examples = re.findall(r"^\| `(\w{22,42})` \| (none|[\d.]+) \|$", PROTOCOL, re.MULTILINE)

    assert len(examples) == 6
    for id, time in examples:
        us = parse_sent_us(id)
        assert us == (None if time == "none" else round(float(time) * 1000))


def test_protocol_has_every_client_of_the_suite():
    clients = " ".join(first_cells("Clients and their quirks"))
    for word in ("Node", "eislambey", "PyRSMQ", "ebuckley", "semihbkgr", "rsmq-rb", "rsmq_async"):
        assert word in clients
    for name in ("andrewbreksa", "ScientaNL", "michsindelar"):
        assert name in clients


def test_differences_refer_to_existing_recordings_and_steps():
    assert set(matrix.DIFFERENCES) == set(recordings.names())
    for name, operations in matrix.DIFFERENCES.items():
        steps = {(s["name"], s["call"]["op"]) for s in recordings.load(name)["steps"]}
        for operation, entry in operations.items():
            assert entry["reason"]
            for step in entry["steps"]:
                assert (step, operation) in steps


def test_readme_names_all_test_files_and_clients():
    readme = (FOLDER / "README.md").read_text()
    for path in FOLDER.glob("test_*.py"):
        assert f"`{path.name}`" in readme
    for kind in PEERS:
        assert kind.name.split()[0] in readme


def test_matrix_has_every_client():
    text = matrix.FILE.read_text()
    for name in (*(kind.name for kind in PEERS), *recordings.names()):
        assert name in text


@pytest.mark.parametrize(
    "document", ["PROTOCOL.md", "README.md", "MIGRATING.md", "golden/README.md"]
)
def test_links_have_existing_targets(document):
    path = FOLDER / document
    for link in re.findall(r"\]\((?!http|#)([^)#]+)\)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_migrating_has_its_examples():
    assert len(BLOCKS) == len(re.findall("```python", MIGRATING)) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{n}" for n in range(len(BLOCKS))])
def test_example_of_migrating_runs(block, server, tmp_path):
    program = tmp_path / "pasted.py"
    program.write_text(block.replace("6379", str(server.port)))
    result = subprocess.run(
        [sys.executable, "-W", "error", program], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")
