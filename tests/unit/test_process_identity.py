"""The identity of a process, and whether it has died."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq.transport import process_identity
from rsmq.transport.process_identity import describe_process, has_died

PRINT_OWN = (
    "import json; from rsmq.transport.process_identity import describe_process; "
    "print(json.dumps(describe_process()))"
)


def test_this_process_lives_and_one_that_has_ended_is_dead():
    ended = subprocess.run(
        [sys.executable, "-c", PRINT_OWN], capture_output=True, text=True, check=True
    )

    assert not has_died(json.dumps(describe_process()))
    assert has_died(ended.stdout)


@pytest.mark.parametrize("identity", ["", "{", "7", "null", '["pid"]', '"pid"', "{}"])
def test_a_text_that_is_not_an_identity_is_not_a_dead_process(identity):
    assert not has_died(identity)


def test_a_process_of_another_machine_is_not_known_to_be_dead():
    assert not has_died(json.dumps({**describe_process(), "place": "elsewhere", "born": "1"}))


def test_a_system_without_proc_knows_of_no_death(monkeypatch):
    monkeypatch.setattr(process_identity, "_BOOT_ID", Path("missing"))
    own = describe_process()

    assert own["place"] == ""
    assert not has_died(json.dumps({**own, "born": "1"}))
    assert process_identity.start_time(0) == ""
