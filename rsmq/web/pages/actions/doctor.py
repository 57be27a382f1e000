"""
Repairs of the doctor's findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.actions.form import Done, Effect, Fields, PageAction, one
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.doctor import ReportJson

#: Findings that the page of confirmation names.
_MAX_NAMED = 50


def _is_chosen(finding: Mapping[str, Any], fields: Fields) -> bool:
    also = set(fields.get("also", ()))
    return bool(also & set(finding["ways"]) if also else finding["safe"])


async def _effect(call: PageCall, fields: Fields) -> Effect:
    """Examine, as a repair with ``dry_run`` does, and name what it would repair."""
    queue, also = one(fields, "queue"), list(fields.get("also", ()))
    report = await call.read(ReportJson, queue=queue or None)
    chosen = [each for each in report["findings"] if _is_chosen(each, fields)]
    if not chosen:
        return Effect("There is nothing to repair now.")
    lines = tuple(
        f"{show_name(each['queue']) + ': ' if each['queue'] else ''}{each['text']}. "
        f"{each['remedy']}"
        for each in chosen[:_MAX_NAMED]
    )
    more = f", of which the first {_MAX_NAMED} are named here" if len(chosen) > _MAX_NAMED else ""
    number = plural(sum(each["number"] for each in chosen), "fault")
    text = f"Repairs {plural(len(chosen), 'finding')} with {number}{more}:"
    if not also:
        return Effect(text, lines=lines)
    warning = "This repair needs a decision: its effect can't be undone."
    return Effect(text, (warning,), name_to_type=queue or also[0], lines=lines)


def _done(_: Fields, answer: Mapping[str, Any]) -> Done:
    repairs = answer["repairs"]
    failed = [each for each in repairs if each["error"]]
    number = sum(each["number"] for each in repairs)
    text = f"{plural(number, 'repair')} in {plural(len(repairs) - len(failed), 'finding')}."
    if failed:
        kinds = ", ".join(sorted({each["error"] for each in failed}))
        text += f" {plural(len(failed), 'repair')} failed: {kinds}."
    return Done(f"{text} Now there are {plural(len(answer['left']), 'finding')}.")


def _what(fields: Fields) -> str:
    where = f" of {show_name(one(fields, 'queue'))}" if one(fields, "queue") else ""
    return f"{show_name(', '.join(fields.get('also', ())) or 'all safe findings')}{where}"


def _command(fields: Fields) -> list[str]:
    also = [f"--also={each}" for each in fields.get("also", ())]
    names = [one(fields, "queue")] if one(fields, "queue") else []
    return ["doctor", *(also or ["--fix"]), "--", *names]


def _back(links: Links, fields: Fields) -> str:
    return links.url("doctor", queue=one(fields, "queue"), examine=1)


ACTIONS = (
    PageAction(
        "repair", "POST /doctor:repair", "Repair", _what, _done, _effect, _command, back=_back,
        fixed={"dry_run": False}, address=("queue", "fix", "also"), recorded="{queue}",
    ),
)  # fmt: skip
