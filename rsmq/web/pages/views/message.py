"""
A message: its facts, its body, its job, and the reason why it is a dead letter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rsmq.errors import InvalidFormat, JobNotFound
from rsmq.explain.causes import Cause
from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import PageAction
from rsmq.web.pages.body_forms import BodyForm, forms_of
from rsmq.web.pages.crash_evidence import read_crash_loop
from rsmq.web.pages.formats import plural
from rsmq.web.pages.links import with_query
from rsmq.web.pages.recent_changes import read_changes, say_move
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.dead_letter_queues import sources_of
from rsmq.web.pages.views.messages import actions_on, raw_of
from rsmq.web.routes.alerts import AlertJson
from rsmq.web.routes.explanations import MessageWhyJson
from rsmq.web.routes.forms import StoredJson
from rsmq.web.routes.jobs import JobJson
from rsmq.web.table import Scope
from rsmq.wire.ids import check_flow_id

#: Bytes of a body that are shown.
_SHOWN_BYTES = 65_536
_NO_WORKER, _RECEIVED_AGAIN = Cause.NO_WORKER.value, Cause.RECEIVED_AGAIN.value


@dataclass(frozen=True, slots=True)
class SingleMessagePage:
    """
    A message.

    Attributes:
        is_dead: whether it is a dead letter.
        stays: whether no worker listens here.
        sources: the queues that it may have come from.
        resend_to: where it is sent again; None if the sender has to choose.
        moved: who has moved it here; may be empty.
        loop: the alert of workers that it is suspected to kill.
        causes: why it does not move, as sentences.
        message: None if it is gone.
        job: None without a record.
        flow: the id of the flow of which it is a node.
        forms: those of its body, each with its address, and the one that is shown.
        shown: bytes of the body that were read.
    """

    queue: str
    is_dead: bool
    stays: bool
    sources: list[str]
    resend_to: str | None
    moved: str
    loop: AlertJson | None
    causes: list[str]
    id: str
    message: StoredJson | None
    why: MessageWhyJson
    job: JobJson | None
    flow: str | None
    forms: list[tuple[BodyForm, str]]
    form: BodyForm | None
    shown: int
    actions: list[PageAction]


async def _show(call: PageCall) -> SingleMessagePage:
    """
    Return the page: four commands, of which two are for the reason why it does not move.

    The policies of all queues are read too, and for a message of a dead-letter queue without a
    reason the last calls of the audit stream: at most once a minute, and after each action. If its
    receives ended without a delete, the alerts are read, to say if it is suspected to kill workers.
    """
    names = {"queue": call.names["queue"], "id": call.names["id"]}
    job = await _read_job(call, names)
    why = await call.read(MessageWhyJson, names)
    sources = await sources_of(call, names["queue"])
    message = None
    try:
        message = await call.read(StoredJson, names, max_bytes=_SHOWN_BYTES)
    except Refused as error:
        # Its job or its past may still be known.
        if error.code != "messageNotFound" or (job is None and not why["events"]):
            raise
    raw = None if message is None else raw_of(message)
    forms = [] if raw is None else forms_of(raw)
    reason = None if message is None else message["reason"]
    may_be_dead = message is not None and (reason is not None or sources is not None)
    moved = ""
    if may_be_dead and reason is None:
        moved = say_move(await read_changes(call, lasting=True), names["queue"], names["id"])
    causes = {each["cause"] for each in why["causes"]}
    loop = await read_crash_loop(call, names["queue"]) if _RECEIVED_AGAIN in causes else None
    is_suspect = loop is not None and loop["message"] == names["id"]
    # A dead-letter queue may have workers of its own, and messages that were sent to it.
    stays = _NO_WORKER in causes
    # Without a reason, only a policy can have moved it here.
    is_dead = may_be_dead and (reason is not None or bool(sources and stays))
    origins = [reason["queue"]] if reason else sources or []
    resend_to: str | None = names["queue"]
    if is_dead:  # here, no handler may listen
        resend_to = origins[0] if len(origins) == 1 else None
    dead = message if may_be_dead and stays else None
    return SingleMessagePage(
        **names, is_dead=is_dead, stays=stays, sources=origins, resend_to=resend_to, moved=moved,
        loop=loop if is_suspect else None, causes=_shown_causes(why, dead, is_suspect=is_suspect),
        message=message, why=why, job=job if job is not None and _has_record(job) else None,
        flow=_find_flow(raw), form=_choose(forms, call.query.get("view")), shown=len(raw or b""),
        forms=[(each, with_query({"view": each.name})) for each in forms],
        actions=actions_on(call, names["queue"], is_dead=may_be_dead),
    )  # fmt: skip


def _shown_causes(why: MessageWhyJson, dead: StoredJson | None, *, is_suspect: bool) -> list[str]:
    """
    Return the sentences of causes.

    Args:
        dead: the message, if it is a dead letter without a listener, which needs no consumer;
            else None.
        is_suspect: whether the evidence of the overview is shown, which is surer.
    """
    if dead is None:
        return [
            each["text"]
            for each in why["causes"]
            if not (is_suspect and each["cause"] == _RECEIVED_AGAIN)
        ]
    # The visibility timeout of the queue that it is in now is not the cause.
    ended = "" if dead["reason"] else _ended(dead["receive_count"])
    texts = {_NO_WORKER: "", Cause.WAITING.value: "", _RECEIVED_AGAIN: ended}
    shown = (texts.get(each["cause"], each["text"]) for each in why["causes"])
    return [each for each in shown if each]


def _ended(received: int) -> str:
    """Return the facts to know before a redrive."""
    return (
        f"It was received {plural(received, 'time')}, and it is not stored how these receives "
        "ended. If workers died with it in flight, it may crash them again: find out why before "
        "you redrive it."
    )


async def _read_job(call: PageCall, names: Mapping[str, str]) -> JobJson | None:
    try:
        return await call.read(JobJson, names)
    except JobNotFound:
        return None


def _find_flow(raw: bytes | None) -> str | None:
    """Return the id of the flow that a body names, if it is that of a node."""
    try:
        return check_flow_id(json.loads(raw or b"")["flow"]["id"])
    except (ValueError, TypeError, KeyError, RecursionError, InvalidFormat):
        return None


def _has_record(job: JobJson) -> bool:
    """Return whether more is known of a job than of any message."""
    facts = (job["worker"], job["begun_at"], job["ended_at"], job["progress"], job["result"])
    return job["is_cancelling"] or any(each is not None for each in facts)


def _choose(forms: list[BodyForm], wanted: str | None) -> BodyForm | None:
    """Return the form that an address names, or the first one that the body has."""
    named = [each for each in forms if each.name == wanted]
    return next(iter(named or [each for each in forms if each.text is not None]), None)


PAGES = (
    PageEntry("/queues/{queue}/messages/{id}", "message.html", Scope.PEEK, _show, below="/queues"),
)
