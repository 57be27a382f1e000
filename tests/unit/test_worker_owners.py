"""Each shared record of a worker has one module that writes it; the docstrings name the readers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rsmq.worker

WORKER = Path(rsmq.worker.__file__).parent

#: The modules that may write an attribute of another object than ``self``.
OWNERS = {
    # Messages in flight, and queues that are closed.
    "in_flight": set(),
    "renew_at": {"state/in_flight.py"},
    "expires_at": {"state/in_flight.py", "child.py"},
    "closed_reason": set(),
    # States of messages and calls.
    "state": {"state/message_state.py"},
    "call_state": {"state/message_state.py"},
    # The settings of a lane.
    "vt": set(),
    "policy": set(),
    "listener": set(),
    "arrivals": {"loop/worker_loop.py"},
    "cancel": {"worker.py"},
    "time_out": {"worker.py"},
    "renew_soon": {"loop/worker_loop.py"},
    "lock": {"run/run_queue.py"},
    # Its calls, and what is known of their durations.
    "ready": {"run/run_queue.py"},
    "limit_now": {"run/run_queue.py"},
    "calls": {"run/run_queue.py"},
    "last_turn": {"run/run_queue.py"},
    "is_active": {"loop/worker_loop.py"},
    "is_stalled": {"loop/stalls.py"},
    "urgent_count": {"run/run_queue.py"},
    "mean_seconds": set(),
    "slow_seconds": set(),
    "no_prefetch_until": {"loop/worker_loop.py"},
    "last_request_at": {"receive/prefetch.py", "loop/worker_loop.py"},
    "fill_at": {"receive/prefetch.py"},
    # The connection of the worker.
    "is_stopping": {"loop/worker_loop.py"},
    "server_ahead": {"receive/prefetch.py"},
}
#: Methods that change a container.
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "rotate", "setdefault", "update",
}  # fmt: skip
#: ``InFlight`` is changed by its own methods, which all modules call.
RECORDS = {"in_flight"}


def find_writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return the line and the attribute of each write to another object than ``self``."""
    for node in ast.walk(tree):
        written = None
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            written = node if isinstance(node, ast.Attribute) else node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value
            is_record = isinstance(target, ast.Attribute) and target.attr in RECORDS
            if node.func.attr in CHANGING and not is_record:
                written = target
        if isinstance(written, ast.Attribute) and not (
            isinstance(written.value, ast.Name) and written.value.id == "self"
        ):
            yield node.lineno, written.attr


def test_only_the_owner_of_a_record_writes_it():
    foreign = []
    for path in sorted(WORKER.rglob("*.py")):
        module = str(path.relative_to(WORKER))
        for line, attribute in find_writes(ast.parse(path.read_text())):
            if attribute in OWNERS and module not in OWNERS[attribute]:
                foreign.append(f"{module}:{line} writes {attribute}")
    assert foreign == []


@pytest.mark.parametrize(
    "text",
    [
        "queue.in_flight = {}",
        "queue.in_flight[id] = lease",
        "del job.lane.in_flight[id]",
        "lane.renew_at, lane.x = 0, 1",
        "lane.renew_at += 1",
        "lane.ready.append(job)",
    ],
)
def test_writes_are_found(text):
    assert {attribute for _, attribute in find_writes(ast.parse(text))} & OWNERS.keys()


@pytest.mark.parametrize(
    "text", ["self.renew_at = 0", "x = lane.renew_at", "queue.in_flight.add()"]
)
def test_reads_and_own_attributes_are_allowed(text):
    assert list(find_writes(ast.parse(text))) == []


def test_every_owner_still_writes_its_records():
    writes = {
        (str(path.relative_to(WORKER)), attribute)
        for path in WORKER.rglob("*.py")
        for _, attribute in find_writes(ast.parse(path.read_text()))
    }
    assert [
        (module, attribute)
        for attribute, modules in OWNERS.items()
        for module in modules
        if (module, attribute) not in writes
    ] == []
