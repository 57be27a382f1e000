"""
The command doctor.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, queues_argument, yes_option
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.errors import QueueNotFound

if TYPE_CHECKING:
    from rsmq.client import RSMQ
    from rsmq.doctor import Finding, Repair, Report

#: A repair may reveal the next fault, so repairs are repeated: a restored body, a bad counter.
_MAX_ROUNDS = 3

#: For a fault that remains, at most so many queues are named.
_MAX_QUEUES_NAMED = 5

#: Faults that are repaired as a whole, so the number of the finding is not the number repaired.
_REPAIRED_AS_A_WHOLE = {
    "expiring", "half-queue", "messages-without-queue", "unlisted-queue", "listed-without-queue",
    "dead-letter-gone",
}  # fmt: skip

_WIDTH = 100
_BY_HAND = re.compile("By hand[:,] ")


@command(
    "doctor",
    "rsmq doctor",
    "rsmq doctor orders --json",
    "rsmq doctor --fix",
    "rsmq doctor orders --also orphan-body:remove --yes",
)
@queues_argument(required=False)
@click.option("--fix", is_flag=True, help="Do all safe repairs.")
@click.option(
    "--also", multiple=True, type=click.Choice(list(OPT_IN_REPAIRS)), metavar="REPAIR",
    help="Do this repair too, which needs a decision; repeatable. One of "
    f"{', '.join(OPT_IN_REPAIRS)}.",
)  # fmt: skip
@yes_option()
@click.pass_obj
def doctor(
    call: Call, queues: tuple[str, ...], also: tuple[str, ...], *, fix: bool, yes: bool
) -> Exit | None:
    """
    Check the server and queues for faults.

    Without a QUEUE it checks all queues of the namespace, also those that are not listed. Without
    --fix or --also nothing is changed; both ask first. A safe repair removes no message, no body
    and no valid receive count. Other programs can use the queues meanwhile.

    The exit code is 1 if errors or warnings remain. Notes are not faults.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        report = _examine(call, rsmq, queues or None)
        if not call.as_json:
            call.out.result(None, _report_lines(report))
        left: Report = report
        done: list[Repair] = []
        if fix or also:
            left, done = _repair_in_rounds(call, rsmq, queues, report, also=also, fix=fix, yes=yes)
    if call.as_json:
        call.out.result(_as_document(report, done, left), ())
    return Exit.NOT_ALL if left.faults else None


def _examine(call: Call, rsmq: RSMQ, queues: Sequence[str] | None) -> Report:
    from rsmq.doctor import examine  # noqa: PLC0415 - takes time

    with call.out.progress("looking") as advance:
        return examine(rsmq, queues, progress=lambda _, number: advance(number))


def _examine_again(call: Call, rsmq: RSMQ, queues: Sequence[str]) -> Report:
    """Examine again after a repair, and leave out queues that the repair has removed."""
    existing = list(queues)
    while True:
        try:
            return _examine(call, rsmq, existing if queues else None)
        except QueueNotFound as error:
            existing.remove(str(error.value))


def _repair_in_rounds(
    call: Call, rsmq: RSMQ, queues: Sequence[str], report: Report, *,
    also: Sequence[str], fix: bool, yes: bool,
) -> tuple[Report, list[Repair]]:  # fmt: skip
    """Repair in rounds until nothing more is repaired; return the last report and the repairs."""
    done: list[Repair] = []
    left = report
    # Each of them once in a call: a value that was divided by 1000 may still look too large.
    requested: set[tuple[str, str | None]] = set()
    for _ in range(_MAX_ROUNDS):
        chosen_by_option = [
            each
            for each in left.findings
            if set(each.ways) & set(also) and (each.code, each.queue) not in requested
        ]
        requested |= {(each.code, each.queue) for each in chosen_by_option}
        chosen = [each for each in left.findings if (fix and each.safe) or each in chosen_by_option]
        if not chosen:
            break
        if not done:
            codes = ", ".join(dict.fromkeys(each.code for each in chosen))
            call.confirm(f"Repair {codes}?", yes=yes)
        repairs = _repair(call, rsmq, chosen, also)
        done += repairs
        if not call.as_json:
            call.out.result(None, map(_repair_line, repairs))
        left = _examine_again(call, rsmq, queues)
        if not any(each.number for each in repairs):
            break
    if not call.as_json:
        call.out.result(None, _remaining_lines(left) if done else ["Nothing to do."])
    return left, done


def _repair(call: Call, rsmq: RSMQ, chosen: list[Finding], also: Sequence[str]) -> list[Repair]:
    from rsmq.doctor import repair  # noqa: PLC0415 - takes time

    reported: Counter[tuple[str, str | None]] = Counter()
    with call.out.progress("repairing", sum(each.number for each in chosen)) as advance:

        def report_progress(finding: Finding, number: int) -> None:
            key = finding.code, finding.queue
            advance(number - reported[key])
            reported[key] = number

        return repair(rsmq, chosen, also=also, progress=report_progress)


def _as_document(report: Report, done: list[Repair], left: Report) -> dict[str, Any]:
    repairs = [
        {"code": each.finding.code, "queue": each.finding.queue, "number": each.number}
        for each in done
    ]
    return {
        "ns": report.ns,
        "queues": report.queues,
        "messages": report.messages,
        "findings": [each.as_dict() for each in report.findings],
        "repairs": repairs,
        "left": [each.as_dict() for each in left.findings] if done else None,
    }


def _report_lines(report: Report) -> Iterator[str]:
    for each in report.findings:
        prefix = "" if each.queue is None else f"{format_text(each.queue)}: "
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


def _paragraph(label: str, text: str) -> list[str]:
    first = f"{'':9}{label + ':':9}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _summary(report: Report) -> str:
    kinds = Counter(each.severity for each in report.findings)
    counts = ", ".join(
        f"{number} {kind}{'s' * (number != 1)}"
        for kind, number in ((kind, kinds[kind]) for kind in ("error", "warning", "note"))
        if number
    )
    queues = f"{report.queues} queue{'s' * (report.queues != 1)}"
    messages = f"{report.messages:,} message{'s' * (report.messages != 1)}"
    return f"{queues}, {messages}: {counts or 'nothing found'}"


def _repair_line(done: Repair) -> str:
    finding = done.finding
    prefix = "" if finding.queue is None else f"{format_text(finding.queue)}: "
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
    yield "After repairs, " + _summary(left)
