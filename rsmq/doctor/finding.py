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

#: How many examples a finding has at most.
EXAMPLES = 5

_NODE_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_-]{0,159}")


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A fault, of the server (no queue), of the namespace (no queue) or of a queue.

    Attributes:
        code: its stable name.
        severity: ``error``: messages are lost, stuck or refused; ``warning``: some client goes
            wrong; ``note``: worth knowing.
        queue: the queue's name; None if it is none of one queue.
        text: what it is, in a sentence.
        number: how many keys, ids, fields or bodies are concerned.
        examples: up to five of them; bytes that are no text are escaped.
        cause: which client or event leaves it.
        harm: what comes of it.
        remedy: what a repair does, or what a person must decide and with which command.
        safe: whether a repair does it without being asked for this code.
        ways: the names of repairs that must be asked for.
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
        """The same as JSON takes it."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in self.__slots__
            for value in [getattr(self, name)]
        }


def finding(
    code: str,
    ns: str,
    queue: str | None = None,
    *,
    number: int = 1,
    detail: str = "",
    examples: Sequence[str | bytes] = (),
    severity: Severity | None = None,
) -> Finding:
    """A finding of this code, its texts filled in."""
    fault = FAULTS[code]
    names = {"queue": _argument(queue), "ns": ns}
    values = {**names, "number": number, "detail": shown(detail)}
    return Finding(
        code,
        severity or fault.severity,
        queue,
        fault.text.format(**values),
        number,
        tuple(shown(each) for each in examples[:EXAMPLES]),
        fault.cause,
        fault.harm.format(**values),
        fault.remedy.format(**values),
        fault.safe,
        fault.ways,
    )


def _argument(queue: str | None) -> str:
    """A queue's name as a shell passes it to ``rsmq``."""
    if queue is None or _NODE_NAME.fullmatch(queue):
        return queue or ""
    return f"--any-names -- {shlex.quote(queue)}"


def shown(value: str | bytes) -> str:
    """A name or id for people; what is not printable text is escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return text if text.isprintable() else ascii(text)[1:-1]


@dataclass(frozen=True, slots=True)
class Report:
    """
    What an examination found.

    Attributes:
        ns: the namespace.
        findings: all of them: the server's first, then queue by queue.
        queues: how many queues were looked at.
        messages: how many ids in them; about, where other programs work meanwhile.
    """

    ns: str
    findings: tuple[Finding, ...]
    queues: int
    messages: int

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are errors or warnings."""
        return tuple(each for each in self.findings if each.severity != "note")
