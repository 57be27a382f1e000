"""
The command doctor.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import YES, command, options
from rsmq.cli.app.errors import Exit, describe_in_line
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.errors import QueueNotFound
from rsmq.errors.printable import format_count

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.doctor import Finding, Repair, Report

#: A repair may reveal the next fault, so repairs are repeated: a restored body, a bad counter.
_MAX_ROUNDS = 3

#: For a fault that remains, at most so many queues are named.
_MAX_QUEUES_NAMED = 5

#: Faults that are repaired as a whole, so the number of the finding is not the number repaired.
_REPAIRED_AS_A_WHOLE = {
    "empty-name", "expiring", "half-queue", "messages-without-queue", "unlisted-queue",
    "listed-without-queue", "dead-letter-gone",
}  # fmt: skip

_WIDTH = 100
_BY_HAND = re.compile("By hand[:,] ")


@command(
    "doctor [QUEUE...]",
    "rsmq doctor",
    "rsmq doctor orders --json",
    "rsmq doctor --fix",
    "rsmq doctor orders --also orphan-body:remove --yes",
)
@options(
    f"""
    --fix  Do all safe repairs.
    --also REPAIR...  Do this repair too, which needs a decision; repeatable. One of
        {", ".join(OPT_IN_REPAIRS)}.
    """,
    also={"type": click.Choice(list(OPT_IN_REPAIRS))},
)
@YES
def doctor(
    call: Call, queues: tuple[str, ...], also: tuple[str, ...], *, fix: bool, yes: bool
) -> Exit | None:
    """
    Check the server and queues for faults.

    Without a QUEUE it checks all queues of the namespace, also those that are not listed. Without
    --fix or --also nothing is changed; both ask first. A safe repair removes no message, no body
    and no valid receive count. Other programs can use the queues meanwhile.

    If Redis refuses a repair, the others are still made. The exit code is 1 if errors or warnings
    remain, or if a repair failed. Notes are not faults.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        report = _examine(call, rsmq, queues or None)
        if not call.as_json:
            call.out.result(None, _report_lines(report))
        repairs = _Repairs(report)
        try:
            if fix or also:
                repairs.run(call, rsmq, queues, also=also, fix=fix, yes=yes)
        finally:
            # Also if the connection is lost: it says what was done.
            if call.as_json and (repairs.done or sys.exception() is None):
                call.out.result(_as_document(report, repairs), ())
    left = repairs.left
    return Exit.NOT_ALL if left is None or left.faults or repairs.failed else None


def _examine(call: Call, rsmq: RSMQ[Any], queues: Sequence[str] | None) -> Report:
    from rsmq.doctor import examine  # noqa: PLC0415 - takes time

    with call.out.progress("looking") as advance:
        return examine(rsmq, queues, progress=lambda _, number: advance(number))


def _examine_again(call: Call, rsmq: RSMQ[Any], queues: Sequence[str]) -> Report:
    """Examine again after a repair, and leave out queues that the repair has removed."""
    existing = list(queues)
    while True:
        try:
            return _examine(call, rsmq, existing if queues else None)
        except QueueNotFound as error:
            existing.remove(str(error.value))


@dataclass(slots=True)
class _Repairs:
    """
    The repairs of one call.

    Attributes:
        left: the last examination; None if the examination after a repair failed.
        done: the repairs, also those that failed.
    """

    left: Report | None
    done: list[Repair] = field(default_factory=list)

    @property
    def failed(self) -> list[Repair]:
        """The repairs that Redis refused."""
        return [each for each in self.done if each.error is not None]

    def run(
        self, call: Call, rsmq: RSMQ[Any], queues: Sequence[str], *,
        also: Sequence[str], fix: bool, yes: bool,
    ) -> None:  # fmt: skip
        """Repair in rounds until nothing more is repaired."""
        for _ in range(_MAX_ROUNDS):
            chosen = self._choose(also, fix=fix)
            if not chosen:
                break
            if not self.done:
                codes = ", ".join(dict.fromkeys(each.code for each in chosen))
                call.confirm(f"Repair {codes}?", yes=yes)
            repairs = _repair(call, rsmq, chosen, also)
            self.done += repairs
            if not call.as_json:
                call.out.result(None, map(_repair_line, repairs))
            self.left = None
            self.left = _examine_again(call, rsmq, queues)
            if not any(each.number for each in repairs):
                break
        if not call.as_json:
            call.out.result(None, self._remaining_lines() if self.done else ["Nothing to do."])

    def _choose(self, also: Sequence[str], *, fix: bool) -> list[Finding]:
        """Return the findings to repair: not those whose repair has failed in this call."""
        failed = {_key(each.finding) for each in self.failed}
        return [
            each
            for each in (self.left.findings if self.left else ())
            if ((fix and each.safe) or set(each.ways) & set(also)) and _key(each) not in failed
        ]

    def _remaining_lines(self) -> Iterator[str]:
        if self.left is not None:
            failures = f"; repairs that failed: {len(self.failed)}" if self.failed else ""
            yield from _remaining_lines(self.left)
            yield f"After repairs, {_summary(self.left)}{failures}"


def _key(finding: Finding) -> tuple[str, str | None]:
    return finding.code, finding.queue


def _repair(
    call: Call, rsmq: RSMQ[Any], chosen: list[Finding], also: Sequence[str]
) -> list[Repair]:
    from rsmq.doctor import repair  # noqa: PLC0415 - takes time

    reported: Counter[tuple[str, str | None]] = Counter()
    with call.out.progress("repairing", sum(each.number for each in chosen)) as advance:

        def report_progress(finding: Finding, number: int) -> None:
            key = _key(finding)
            advance(number - reported[key])
            reported[key] = number

        return repair(rsmq, chosen, also=also, progress=report_progress)


def _as_document(report: Report, repairs: _Repairs) -> dict[str, Any]:
    documents = [
        {
            "code": each.finding.code,
            "queue": each.finding.queue,
            "number": each.number,
            "error": None if each.error is None else describe_in_line(each.error),
        }
        for each in repairs.done
    ]
    left = repairs.left if repairs.done else None
    return {
        "ns": report.ns,
        "queues": report.queues,
        "messages": report.messages,
        "findings": [each.as_dict() for each in report.findings],
        "repairs": documents,
        "left": None if left is None else [each.as_dict() for each in left.findings],
    }


def _report_lines(report: Report) -> Iterator[str]:
    for each in report.findings:
        prefix = _prefix(each)
        yield f"{each.severity:8} {prefix}{each.text}  [{each.code}]"
        if each.examples and set(each.examples) != {each.text}:
            yield from _paragraph("such as", ", ".join(each.examples))
        yield from _paragraph("from", each.cause)
        yield from _paragraph("harm", each.harm)
        label = "--fix" if each.safe else "--also" if each.ways else "by hand"
        remedy = each.remedy
        if by_hand := _BY_HAND.match(remedy):
            remedy = remedy[by_hand.end() :]
        if each.ways:
            remedy = f"{' or '.join(each.ways)}. {remedy}"
        yield from _paragraph(label, remedy)
    yield _summary(report)


def _prefix(finding: Finding) -> str:
    """Return the queue of a finding, with a colon."""
    return "" if finding.queue is None else f"{format_text(finding.queue)}: "


def _paragraph(label: str, text: str) -> list[str]:
    first = f"{'':9}{label + ':':9}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _summary(report: Report) -> str:
    kinds = Counter(each.severity for each in report.findings)
    counts = ", ".join(
        format_count(number, kind)
        for kind, number in ((kind, kinds[kind]) for kind in ("error", "warning", "note"))
        if number
    )
    queues = format_count(report.queues, "queue")
    return f"{queues}, {format_count(report.messages)}: {counts or 'nothing found'}"


def _repair_line(done: Repair) -> str:
    finding = done.finding
    prefix = _prefix(finding)
    if done.error is not None:
        partly = f"{done.number} of {finding.number}, then " if done.number else ""
        return f"failed   {prefix}{partly}{describe_in_line(done.error)}  [{finding.code}]"
    if finding.code not in _REPAIRED_AS_A_WHOLE:
        return f"repaired {prefix}{done.number} of {finding.number}  [{finding.code}]"
    line = f"repaired {prefix}done" if done.number else f"repaired {prefix}in order by then"
    return f"{line}  [{finding.code}]"


def _remaining_lines(left: Report) -> Iterator[str]:
    queues: dict[str, list[str]] = {}
    for each in left.faults:
        queues.setdefault(each.code, []).append(
            "" if each.queue is None else format_text(each.queue)
        )
    for code, names in queues.items():
        names_shown = ", ".join(filter(None, names[:_MAX_QUEUES_NAMED]))
        more = (
            f" and {len(names) - _MAX_QUEUES_NAMED} more" if len(names) > _MAX_QUEUES_NAMED else ""
        )
        yield f"left     {names_shown}{more}{': ' if names_shown else ''}[{code}]"
