"""Programs collect no garbage while they load modules, and never look for some in these."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from rsmq.cli.app.loading import loading

OBJECTS = 20_000

# Prints for a program how many objects are frozen, and whether garbage is collected afterwards.
PROGRAM = """
import gc, sys
from rsmq.cli import main
code = main({arguments})
print(code, gc.get_freeze_count() > 1000, gc.isenabled(), file=sys.stderr)
"""


@pytest.fixture
def collections():
    """The collections that have begun."""
    begun = []

    def note(phase, _):
        if phase == "start":
            begun.append(phase)

    gc.unfreeze()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)
    gc.unfreeze()


def make_objects():
    return [[] for _ in range(OBJECTS)]


def test_nothing_is_collected_while_modules_are_loaded(collections):
    with loading():
        made = make_objects()
        assert collections == []
    frozen = gc.get_freeze_count()
    assert frozen >= len(made)
    more = make_objects()
    assert len(more) == OBJECTS
    assert collections


def test_after_an_error_garbage_is_collected_and_nothing_is_kept(collections):
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_collections_that_were_off_stay_off(collections):
    gc.disable()
    try:
        with loading():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("arguments", "is_frozen"), [("", True), ("['--version']", False)], ids=["own", "called"]
)
def test_only_a_process_of_its_own_keeps_what_is_loaded(arguments, is_frozen):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(arguments=arguments), "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("rsmq ")
    assert done.stderr.split() == ["0", str(is_frozen), "True"]
