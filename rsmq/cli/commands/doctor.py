"""
The command doctor.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, queues_argument, yes_option
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import shown
from rsmq.client import RSMQ
from rsmq.doctor import Finding, Repair, Report, examine, repair
from rsmq.doctor.catalogue import OPT_IN_REPAIRS
from rsmq.errors import QueueNotFound

#: A repair may uncover what is for the next: a restored body, a bad counter.
_ROUNDS = 3

#: Queues that are named of a fault that is left.
_NAMED = 5

#: What a repair mends as a whole, whatever the number of the finding counts.
_WHOLE = {
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
@click.option("--fix", is_flag=True, help="Repair what is safe to repair.")
@click.option(
    "--also", multiple=True, type=click.Choice(list(OPT_IN_REPAIRS)), metavar="REPAIR",
    help="Do this repair too, which someone has to decide on; may be given several times. One of "
    f"{', '.join(OPT_IN_REPAIRS)}.",
)  # fmt: skip
@yes_option()
@click.pass_obj
def doctor(
    call: Call, queues: tuple[str, ...], also: tuple[str, ...], *, fix: bool, yes: bool
) -> Exit | None:
    """
    Look for faults of the server and of queues.

    Without a QUEUE it looks at all of the namespace, those that are not listed too. Nothing is
    changed without --fix or --also; both ask first. A repair that is safe takes no message, no body
    and no receive count that can be counted up. Other programs may go on meanwhile.

    Ends with 1 where errors or warnings are left; notes are no faults.
    """
    with call.open() as rsmq:
        report = _examined(call, rsmq, queues or None)
        if not call.as_json:
            call.out.result(None, _lines(report))
        left, done = report, list[Repair]()
        if fix or also:
            left, done = _mended(call, rsmq, queues, report, also=also, fix=fix, yes=yes)
    if call.as_json:
        call.out.result(_told(report, done, left), ())
    return Exit.NOT_ALL if left.faults else None


def _examined(call: Call, rsmq: RSMQ, queues: Sequence[str] | None) -> Report:
    with call.out.progress("looking") as advance:
        return examine(rsmq, queues, progress=lambda _, number: advance(number))


def _examined_again(call: Call, rsmq: RSMQ, queues: Sequence[str]) -> Report:
    """After a repair, which may have left nothing of a queue."""
    there = list(queues)
    while True:
        try:
            return _examined(call, rsmq, there if queues else None)
        except QueueNotFound as gone:
            there.remove(str(gone.value))


def _mended(
    call: Call, rsmq: RSMQ, queues: Sequence[str], report: Report, *,
    also: Sequence[str], fix: bool, yes: bool,
) -> tuple[Report, list[Repair]]:  # fmt: skip
    """What is left after repairs, and what they did."""
    done: list[Repair] = []
    left = report
    # Once in a call: what was divided by 1000 may still look as if it should be.
    asked_for: set[tuple[str, str | None]] = set()
    for _ in range(_ROUNDS):
        asked = [
            each
            for each in left.findings
            if set(each.ways) & set(also) and (each.code, each.queue) not in asked_for
        ]
        asked_for |= {(each.code, each.queue) for each in asked}
        chosen = [each for each in left.findings if (fix and each.safe) or each in asked]
        if not chosen:
            break
        if not done:
            codes = ", ".join(dict.fromkeys(each.code for each in chosen))
            call.confirm(f"Repair {codes}?", yes=yes)
        now = _repaired(call, rsmq, chosen, also)
        done += now
        if not call.as_json:
            call.out.result(None, map(_line_of, now))
        left = _examined_again(call, rsmq, queues)
        if not any(each.number for each in now):
            break
    if not call.as_json:
        call.out.result(None, _lines_of_left(left) if done else ["Nothing to do."])
    return left, done


def _repaired(call: Call, rsmq: RSMQ, chosen: list[Finding], also: Sequence[str]) -> list[Repair]:
    behind: Counter[tuple[str, str | None]] = Counter()
    with call.out.progress("repairing", sum(each.number for each in chosen)) as advance:

        def tell(finding: Finding, number: int) -> None:
            place = finding.code, finding.queue
            advance(number - behind[place])
            behind[place] = number

        return repair(rsmq, chosen, also=also, progress=tell)


def _told(report: Report, done: list[Repair], left: Report) -> dict[str, Any]:
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


def _lines(report: Report) -> Iterator[str]:
    for each in report.findings:
        place = "" if each.queue is None else f"{shown(each.queue)}: "
        yield f"{each.severity:8} {place}{each.text}  [{each.code}]"
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
    yield _counted(report)


def _paragraph(label: str, text: str) -> list[str]:
    first = f"{'':9}{label + ':':9}"
    return textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _counted(report: Report) -> str:
    kinds = Counter(each.severity for each in report.findings)
    found = ", ".join(
        f"{number} {kind}{'s' * (number != 1)}"
        for kind, number in ((kind, kinds[kind]) for kind in ("error", "warning", "note"))
        if number
    )
    queues = f"{report.queues} queue{'s' * (report.queues != 1)}"
    messages = f"{report.messages:,} message{'s' * (report.messages != 1)}"
    return f"{queues}, {messages}: {found or 'nothing found'}"


def _line_of(done: Repair) -> str:
    found = done.finding
    place = "" if found.queue is None else f"{shown(found.queue)}: "
    if found.code not in _WHOLE:
        return f"repaired {place}{done.number} of {found.number}  [{found.code}]"
    did = f"repaired {place}done" if done.number else f"repaired {place}in order by then"
    return f"{did}  [{found.code}]"


def _lines_of_left(left: Report) -> Iterator[str]:
    queues: dict[str, list[str]] = {}
    for each in left.faults:
        queues.setdefault(each.code, []).append("" if each.queue is None else shown(each.queue))
    for code, names in queues.items():
        named = ", ".join(filter(None, names[:_NAMED]))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"left     {named}{more}{': ' if named else ''}[{code}]"
    yield "After repairs, " + _counted(left)
