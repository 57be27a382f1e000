"""``rsmq-worker`` on sets of cells, started as a user starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rsmq import Cells
from rsmq.wire.cells import cell_of_key, name_of_cell
from tests.workers.polling import wait_until

ROOT = Path(__file__).parents[2]
CELLS = 4

APP = """
from rsmq import RSMQ, Cells
from rsmq.worker import Worker

plain = Worker(RSMQ.from_url({url!r}, ns="unused"))
spread = Worker(Cells.from_url({url!r}, ns={ns!r}, cells=4))
children = Worker(Cells.from_url({url!r}, ns={ns!r}, cells=4))

def handle(body, message):
    # One write: several threads print.
    print(f"handles {body} {message.cell} {message.id}\\n", end="", flush=True)
    if body == "bad":
        raise ValueError("no such order")

for each in (plain, spread):
    each.listener("q", max_retries=0, dead_letter_queue="dead")(handle)
children.listener("q", max_retries=0, dead_letter_queue="dead", process=True)(handle)
"""


class Program:
    """The program in a folder with an app."""

    def __init__(self, server, ns, folder):
        self.ns, self._url, self._folder = ns, server.url, folder
        (folder / "cells_app.py").write_text(
            APP.replace("{url!r}", repr(server.url)).replace("{ns!r}", repr(ns))
        )
        self.cells = Cells.from_url(server.url, ns=ns, cells=CELLS)
        self.cells.create_queue("q")
        self.cells.create_queue("dead")
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RSMQ_")
        } | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self._processes = []

    @property
    def place(self):
        """The options that name the set."""
        return "--url", self._url, "--ns", self.ns, "--cells", str(CELLS)

    def send_to_all(self):
        """Send a message to each cell, and a bad one to the last."""
        for cell in range(CELLS):
            self.cells.cells[cell].send_message("q", f"body{cell}")
        self.cells.cells[CELLS - 1].send_message("q", "bad")

    def start(self, *arguments, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "rsmq.cli.commands.worker", *arguments],
            cwd=self._folder, env=self.environment | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def run(self, *arguments, **environment):
        """Return the exit code, the standard output and the standard error."""
        process = self.start(*arguments, **environment)
        out, errors = process.communicate()
        return process.returncode, out, errors

    def close(self):
        for process in self._processes:
            with process:  # closes its pipes, and waits
                process.kill()
        self.cells.close()


@pytest.fixture
def program(server, ns, tmp_path, raw):
    made = Program(server, ns, tmp_path)
    yield made
    made.close()
    keys = raw.keys(f"{{{ns}.*")
    if keys:
        raw.unlink(*keys)


def handled(text):
    """Return the bodies and cells of the handled messages, from the standard output."""
    return sorted((body, int(cell)) for body, cell in re.findall(r"handles (\S+) (\d+) \2-", text))


EVERY_MESSAGE = [("bad", CELLS - 1), *((f"body{cell}", cell) for cell in range(CELLS))]


@pytest.mark.parametrize(
    ("app", "is_named"),
    [("plain", True), ("spread", False), ("spread", True), ("children", False), ("children", True)],
)
def test_messages_of_all_cells_are_handled(program, app, is_named):
    """The place of the worker's own client is replaced, in child processes too."""
    program.send_to_all()
    place = program.place if is_named else ()
    code, out, errors = program.run(f"cells_app:{app}", "--burst", *place)
    assert (code, handled(out)) == (0, EVERY_MESSAGE), errors
    (dead,) = program.cells.peek_messages("dead")
    assert (dead.body, dead.reason.exception) == ("bad", "ValueError: no such order")
    assert dead.id.startswith(f"{CELLS - 1}-")


def test_a_supervisor_passes_the_set_on(program):
    program.send_to_all()
    _, url, _, ns, _, cells = program.place
    code, out, errors = program.run(
        "cells_app:plain", "--burst", "--processes", "2",
        RSMQ_URL=url, RSMQ_NS=ns, RSMQ_CELLS=cells,
    )  # fmt: skip
    assert (code, handled(out)) == (0, EVERY_MESSAGE), errors


def test_workers_are_found_in_their_home(program, raw):
    process = program.start("cells_app:plain", "--name", "w", *program.place)
    home = cell_of_key("w", CELLS)
    wait_until(lambda: raw.hget(f"{name_of_cell(program.ns, home)}:x:workers", "w"))
    code, out, _ = program.run("check", "w", *program.place)
    assert (code, out.partition(",")[0]) == (0, "w: alive")
    code, out, _ = program.run("--list", *program.place)
    assert code == 0
    assert re.search(rf"^ *{home} +w +yes ", out, re.MULTILINE), out
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    code, out, _ = program.run("check", "w", *program.place)
    assert (code, out) == (1, "there is no worker named w\n")


@pytest.mark.parametrize(
    ("app", "options", "text"),
    [
        ("spread", ["--cells", "5"], "the number of cells 5, of --cells or RSMQ_CELLS, goes with"),
        ("plain", ["--cells", "4"], "the worker's own client has one namespace"),
        ("spread", ["--ns", "other"], "the namespace 'other', of --ns or RSMQ_NS, goes with"),
        ("spread", ["--cells", "0"], "--cells must be between 1 and 1000, not 0."),
    ],
)
def test_a_set_without_its_servers_is_refused(program, app, options, text):
    code, _, errors = program.run(f"cells_app:{app}", *options)
    assert code != 0
    assert text in errors
    assert "Traceback" not in errors


def test_another_number_of_cells_is_refused(program):
    _, url, _, ns, *_ = program.place
    code, _, errors = program.run(
        "cells_app:plain", "--url", url, "--ns", ns, "--cells", str(CELLS + 1)
    )
    assert code != 0
    assert f"cell 0 of {CELLS} of the set" in errors
