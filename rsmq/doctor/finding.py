"""
The findings of an examination.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.doctor.catalogue import FAULTS, Severity
from rsmq.errors.printable import escape_unprintable

#: The maximum number of examples of a finding.
MAX_EXAMPLES = 5

_NODE_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,159}")


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A fault of the server, of the namespace or of a queue.

    Attributes:
        code: the stable name of this kind of fault.
        severity: ``error``: messages are lost, stuck or refused; ``warning``: some client fails or
            misreads data; ``note``: information.
        queue: the queue's name; None for a fault of the server or of the namespace.
        text: the fault, in a sentence.
        number: the number of affected keys, ids, fields or bodies.
        examples: up to five of them; unprintable characters, and bytes that are not UTF-8, are
            escaped.
        cause: the clients or events that cause it.
        harm: its consequences.
        remedy: what the repair changes, or what a person must decide, with the commands for it.
        safe: whether ``repair`` repairs it without an entry in its parameter ``also``.
        ways: the names, for the parameter ``also``, of repairs that are not safe.
    """

    code: str
    severity: Severity
    queue: str | None
    text: str
    number: int
    examples: tuple[str, ...]
    cause: str
    harm: str
    remedy: str
    safe: bool
    ways: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict for JSON: tuples become lists."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in self.__slots__
            for value in [getattr(self, name)]
        }


def make_finding(
    code: str,
    ns: str,
    queue: str | None = None,
    *,
    number: int = 1,
    detail: str = "",
    examples: Sequence[str | bytes] = (),
    severity: Severity | None = None,
) -> Finding:
    """
    Return a finding, with its texts from the catalogue.

    Args:
        code: the code of the fault in the catalogue.
        ns: the namespace.
        queue: the queue's name; None for a fault of the server or of the namespace.
        number: the number of affected keys, ids, fields or bodies.
        detail: the value of ``{detail}`` in the texts.
        examples: affected ids, fields or keys; the first five are kept.
        severity: replaces the severity in the catalogue.
    """
    fault = FAULTS[code]
    names = {"queue": _quote_name(queue), "ns": ns}
    values = {**names, "number": number, "detail": escape_unprintable(detail)}
    return Finding(
        code,
        severity or fault.severity,
        queue,
        fault.text.format(**values),
        number,
        tuple(escape_unprintable(each) for each in examples[:MAX_EXAMPLES]),
        fault.cause,
        fault.harm.format(**values),
        fault.remedy.format(**values),
        fault.safe,
        fault.ways,
    )


def _quote_name(queue: str | None) -> str:
    """Return the arguments of ``rsmq``, quoted for a shell, that name a queue."""
    if queue is None or _NODE_NAME.fullmatch(queue):
        return queue or ""
    return f"--any-names -- {shlex.quote(queue)}"


@dataclass(frozen=True, slots=True)
class Report:
    """
    The result of an examination.

    Attributes:
        ns: the namespace.
        findings: those of the server, then those of the namespace, then those of each queue, and
            at the end missing rights.
        queues: the number of examined queues.
        messages: the number of ids in them; approximate if other programs use the queues at the
            same time.
    """

    ns: str
    findings: tuple[Finding, ...]
    queues: int
    messages: int

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are errors or warnings."""
        return tuple(each for each in self.findings if each.severity != "note")
