"""
The matrix: client by version by operation, written to matrix.md after a complete run.

Tests record what they prove with ``record_proof``; a plugin collects this from all test workers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from compat.peers import FEATURES, OPERATIONS, PEERS

FILE = Path(__file__).parent / "matrix.md"
ORDERS = ("ours, theirs", "theirs, ours")
SEEN_FEATURE = "seen"
_LEGEND = (
    "= : from the recorded keys, our operation makes of them what the client made. "
    "A number: it differs as the note says. - : the client does not have the operation."
)
DIFFERENCES = json.loads((Path(__file__).parent / "golden" / "differences.json").read_text())


def record_version(request, client, version):
    """Record the version that a client reports."""
    request.node.user_properties.append(("version", (client, version)))


def record_proof(request, client, operation, proof):
    """Record that the current test proves an operation of a client."""
    request.node.user_properties.append(("cell", (client, operation, proof)))


class Results:
    """The results of all tests of the run, with what they prove."""

    def __init__(self, config):
        # Workers of a parallel run report to the process that started them, which writes the file.
        self._is_writer = not hasattr(config, "workerinput")
        self._proofs = defaultdict(lambda: defaultdict(list))
        self._versions = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.failed:
            for kind, value in report.user_properties:
                if kind == "version":
                    self._versions[value[0]] = value[1]
                elif kind == "cell":
                    client, operation, proof = value
                    self._proofs[client, operation][proof].append(report.passed)

    def pytest_sessionfinish(self):
        if self._is_writer and self._is_complete():
            FILE.write_text(self._text())

    def _is_complete(self):
        """Return whether every cell was tested: a partial run must not change the matrix."""
        required = {
            (kind.name, operation, order)
            for kind in PEERS
            for operation in OPERATIONS
            if operation not in kind.missing_operations
            for order in ORDERS
        }
        required |= {(kind.name, feature, SEEN_FEATURE) for kind in PEERS for feature in FEATURES}
        tested = {
            (*client_and_operation, proof)
            for client_and_operation, proofs in self._proofs.items()
            for proof in proofs
        }
        recorded = {client for client, _ in self._proofs} - {kind.name for kind in PEERS}
        return required <= tested and set(DIFFERENCES) <= recorded

    def _text(self):
        lines = [
            "# Matrix",
            "",
            "Written by `scripts/test`; what each word rests on is in [README.md](README.md).",
            "",
            "## Clients that the suite runs",
            "",
            "Each operation by the one, and what follows of it seen by the other, in both orders.",
            "",
            _row("operation", *(self._title(kind) for kind in PEERS)),
            _row(*["---"] * (len(PEERS) + 1)),
        ]
        lines += [
            _row(operation, *(self._live(kind, operation) for kind in PEERS))
            for operation in OPERATIONS
        ]
        lines += [
            "",
            "## What this library adds",
            "",
            "Done by this library, and what follows of it seen by the other client.",
            "",
            _row("feature", *(self._title(kind) for kind in PEERS)),
            _row(*["---"] * (len(PEERS) + 1)),
        ]
        lines += [
            _row(feature, *(self._seen(kind, feature) for kind in PEERS)) for feature in FEATURES
        ]
        lines += [
            "",
            "## Recorded sessions",
            "",
            _LEGEND,
            "",
        ]
        recorded = sorted({c for c, _ in self._proofs} - {kind.name for kind in PEERS})
        operations = [operation for operation in OPERATIONS if operation != "realtime"]
        notes: list[str] = []
        rows = [
            _row(client, *(self._recorded(client, operation, notes) for operation in operations))
            for client in recorded
        ]
        lines += [_row("client", *operations), _row(*["---"] * (len(operations) + 1)), *rows, ""]
        lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
        return "\n".join(lines) + "\n"

    def _title(self, kind):
        if kind.name.startswith("PHP") and self._versions.get(kind.name) is None:
            return f"{kind.name}, by php/client.php: the package could not be installed"
        return kind.name

    def _live(self, kind, operation):
        if operation in kind.missing_operations:
            return "-"
        proofs = self._proofs[kind.name, operation]
        passed = all(all(proofs[order]) for order in ORDERS)
        quirk = kind.quirks.get(operation)
        return ("both ways" if passed else "FAILED") + (f"; {quirk}" if quirk else "")

    def _seen(self, kind, feature):
        return "seen" if all(self._proofs[kind.name, feature][SEEN_FEATURE]) else "FAILED"

    def _recorded(self, client, operation, notes):
        proofs = self._proofs.get((client, operation))
        if not proofs:
            return "-"
        if not all(all(results) for results in proofs.values()):
            return "FAILED"
        difference = DIFFERENCES[client].get(operation)
        if difference is None:
            return "="
        if difference["reason"] not in notes:
            notes.append(difference["reason"])
        return str(notes.index(difference["reason"]) + 1)


def _row(*cells):
    return f"| {' | '.join(cells)} |"
