"""Templates name only what the records of their pages have: a renamed field is found here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from inspect import isfunction
from typing import Annotated, Any, TypedDict, get_origin, get_type_hints

import pytest
from jinja2 import DictLoader, Environment

from rsmq.doctor.finding import Finding
from rsmq.explain.alerts.alert import Alert
from rsmq.explain.alerts.record import Silence
from rsmq.explain.held import HeldMessage
from rsmq.explain.timeline import TimelineEvent
from rsmq.figures.operations import HiddenCounts
from rsmq.history.call_records import Percentiles, TaskFigures
from rsmq.history.records import History, HistoryGap
from rsmq.model import DeadLetterReason, MessageCounts, QueueAttributes
from rsmq.push.subscriber import Subscriber
from rsmq.trash.deletion import Deletion
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.web.answers import fields_of
from rsmq.web.bulk.records import OperationRecord
from rsmq.web.pages.action_runner import ActionPage, Flash
from rsmq.web.pages.api_page import ApiPage
from rsmq.web.pages.links import Links
from rsmq.web.pages.login import LoginPage
from rsmq.web.pages.rendering import _environment
from rsmq.web.pages.responses import SiteView
from rsmq.web.pages.site import ArrivingPage, ProblemPage
from rsmq.web.pages.table import PageCall
from rsmq.web.pages.views import PAGES
from rsmq.web.routes import PATHS, TABLE
from rsmq.web.routes.alerts import AlertJson, SilenceJson
from rsmq.web.routes.bulk import OperationJson
from rsmq.web.routes.delayed import HiddenQueueJson
from rsmq.web.routes.doctor import FindingJson
from rsmq.web.routes.explanations import EventJson
from rsmq.web.routes.forms import QueueJson, ReasonJson, StoredJson
from rsmq.web.routes.history import GapJson, HistoryJson
from rsmq.web.routes.queues import CountsJson
from rsmq.web.routes.subscribers import SubscriberJson, TargetJson
from rsmq.web.routes.task_figures import PercentilesJson, TaskJson
from rsmq.web.routes.undo import DeletionJson
from rsmq.web.routes.workers import HeldJson, RunningCallJson, StalledJson, WorkerJson
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.orders import RunningCall
from rsmq.wire.workers import StalledHandlers, WorkerInfo
from tests.web.template_types import Method, TemplateTypes, hints

#: The values of each page beside its record.
_SHARED = {
    "refresh": float, "site": SiteView, "links": Links, "call": PageCall, "age": float | None,
    "flash": Flash | None,
}  # fmt: skip


def _names_of(record):
    """The attributes of a record as the site passes them, with their types."""
    own = {
        name: hints(each.fget)["return"]
        if isinstance(each, property)
        else Method(hints(each)["return"])
        for name, each in vars(record).items()
        if isinstance(each, property) or (isfunction(each) and not name.startswith("_"))
    }
    return {**hints(record), **own}


#: The pages that are not of the table.
_OTHERS = {
    "action.html": ActionPage, "api.html": ApiPage, "arriving.html": ArrivingPage,
    "login.html": LoginPage, "problem.html": ProblemPage, "session.html": object,
}  # fmt: skip
_RECORDS = {**{each.template: hints(each.view)["return"] for each in PAGES}, **_OTHERS}
#: Templates that others use.
_USED = {"base.html", "charts.html", "parts.html", "job.html"}


@pytest.mark.parametrize("template", _RECORDS)
def test_a_template_names_only_what_its_record_has(template):
    types = TemplateTypes(_environment())
    types.check(template, {**_names_of(_RECORDS[template]), **_SHARED})
    assert types.wrong == []


def test_each_page_has_a_record():
    assert set(_environment().list_templates()) == {*_RECORDS, *_USED}


class _Row(TypedDict):
    name: str
    counts: dict[str, int]


@dataclass
class _Record:
    rows: list[_Row]
    pairs: list[tuple[str, _Row | None]]

    @property
    def first(self) -> _Row | None:
        return None


_PARTS = "{% macro cell(row) %}{{ row.name }}{% endmacro %}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{% for each in rows %}{{ each.name|upper }}{% endfor %}", None),
        ("{% for each in rows %}{{ each.nme }}{% endfor %}", "_Row has no nme"),
        ("{{ rws }}", "there is no rws"),
        ("{% for key, each in pairs %}{{ each['name'] }}{% endfor %}", None),
        ("{% for key, each in pairs %}{% if each.nme %}{% endif %}{% endfor %}", "has no nme"),
        ("{% for a, b, c in pairs %}{% endfor %}", "3 names for"),
        ("{{ first.name }}{{ (rows|first).name }}{{ rows[0].name }}", None),
        ("{{ first.nme }}", "_Row has no nme"),
        ("{{ (rows|last).nme }}", "_Row has no nme"),
        ("{{ rows[0].nme }}", "_Row has no nme"),
        ("{% set row = rows[0] if rows else first %}{{ row.nme }}", "has no nme"),
        ("{% for k, n in rows[0].counts.items() %}{{ n.nme }}{% endfor %}", "int has no nme"),
        ("{% from 'parts' import cell %}{{ cell(rows[0]) }}", None),
        ("{% from 'parts' import cell %}{{ cell(rows) }}", "has no name"),
        ("{% from 'parts' import cell %}{{ cell(roe=1) }}", "no parameter roe"),
        ("{% from 'parts' import cll %}", "no cll"),
        ("{% extends 'base' %}{% block x %}{{ first.nme }}{% endblock %}", "has no nme"),
        ("{% extends 'wrong' %}", "_Row has no nme"),
    ],
)
def test_a_name_that_a_value_does_not_have_is_found(text, wrong):
    loader = DictLoader(
        {"page": text, "parts": _PARTS, "base": "{% block x %}{% endblock %}",
         "wrong": "{{ first.nme }}"}
    )  # fmt: skip
    types = TemplateTypes(Environment(loader=loader))
    types.check("page", _names_of(_Record))
    if wrong is None:
        assert types.wrong == []
    else:
        assert any(wrong in each for each in types.wrong), types.wrong


#: Answers with the attributes of a record, and the attributes that they have under another name, or
#: not at all.
_OF_RECORDS = (
    (Finding, FindingJson, ()),
    (WorkerInfo, WorkerJson, ("alive", "queues")),  # is_alive; in_flight of seen queues
    (StalledHandlers, StalledJson, ()),
    (RunningCall, RunningCallJson, ()),
    (HeldMessage, HeldJson, ()),
    (HiddenCounts, HiddenQueueJson, ()),
    (TimelineEvent, EventJson, ()),
    (Subscriber, SubscriberJson, ()),
    (PushTarget, TargetJson, ()),
    (Deletion, DeletionJson, ("message_ids",)),  # which may be many
    (OperationRecord, OperationJson, ("id", "cursor", "address")),  # operation; internal
    (Alert, AlertJson, ()),
    (Silence, SilenceJson, ()),
    (History, HistoryJson, ()),
    (HistoryGap, GapJson, ()),
    (TaskFigures, TaskJson, ()),
    (Percentiles, PercentilesJson, ()),
    (DeadLetterReason, ReasonJson, ()),
    (MessageCounts, CountsJson, ()),
    (QueueAttributes, QueueJson, ()),
)


@pytest.mark.parametrize(("record", "answer", "omitted"), _OF_RECORDS)
def test_an_answer_has_each_attribute_of_its_record(record, answer, omitted):
    assert {each.name for each in fields(record)} - hints(answer).keys() == set(omitted)


def test_the_answer_of_a_message_has_the_facts_that_all_faces_show():
    notes = get_type_hints(StoredJson, include_extras=True)
    of_table = {name for name, each in notes.items() if get_origin(each) is not Annotated}
    assert of_table == {each.name for each in SHOWN_FACTS}
    assert {each.name for each in fields_of(StoredJson)} == notes.keys()


def test_an_answer_that_a_page_reads_is_of_one_entry():
    answers: Counter[Any] = Counter(
        each.result for each in TABLE if each.method == "GET" and isinstance(each.result, type)
    )
    assert [each for each, number in answers.items() if number > 1] == []
    assert len(PATHS) == len(answers)
