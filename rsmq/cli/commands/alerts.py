"""
The command group alerts: the targets of alerts, and silences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Group, argument
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text, format_time
from rsmq.cli.app.send_options import call_options

if TYPE_CHECKING:
    from rsmq.explain.alerts.record import AlertRecord

_HELP = """
Send alerts to a webhook, to Slack or to PagerDuty.

The alerts are those of the overview of rsmq web, one of whose servers sends one message at the
begin of each and one at its end. Users of Prometheus need none of it: see rsmq exporter.
"""

alerts = Group(
    "alerts",
    help=_HELP,
    examples=[
        "rsmq alerts add ops https://example.org/hooks --secret-env ALERTS_SECRET",
        "rsmq alerts add oncall --format pagerduty --secret-env PAGERDUTY_KEY",
        "rsmq alerts silence not-received orders --for 1h --by me --why 'new workers'",
    ],
)


@alerts.subcommand(
    "add NAME",
    "rsmq alerts add ops https://example.org/hooks --secret-env ALERTS_SECRET",
    "rsmq alerts add team https://hooks.slack.com/services/T/B/X --format slack",
    "rsmq alerts add oncall --format pagerduty --secret-env PAGERDUTY_KEY",
)
@argument("[URL]", "target")
@call_options("alerts.add")
def add(call: Call, name: str, target: str | None, format: str, secret_env: str | None) -> None:
    """
    Add a target of alerts, or change it.

    The URL is stored readable in Redis; the secret is not stored.
    """
    with call.open() as rsmq:
        is_new = rsmq.run_steps(
            _operations().set_target_in_steps(rsmq.namespace, name, target, format, secret_env)
        )
    call.out.result(
        {"name": name, "format": format, "added": is_new},
        f"{name}: {'added' if is_new else 'changed'}",
    )


@alerts.subcommand("list", "rsmq alerts list --json")
def list_(call: Call) -> None:
    """Show the targets of alerts, with their last answers."""
    _show(call, _read(call).list_targets(), _OF_TARGETS)


@alerts.subcommand("remove NAME", "rsmq alerts remove ops")
def remove(call: Call, name: str) -> Exit | None:
    """Remove a target of alerts. It gets nothing more, not even the end of open alerts."""
    return _change(call, name, _operations().remove_target_in_steps, "removed")


@alerts.subcommand("test NAME", "rsmq alerts test ops")
def test_(call: Call, name: str) -> Exit | None:
    """Let a server send a test alert, its begin and its end. rsmq alerts list has the answer."""
    return _change(call, name, _operations().test_target_in_steps, "tested")


@alerts.subcommand(
    "silence KIND [SUBJECT]",
    "rsmq alerts silence not-received orders --for 1h --by me --why 'new workers'",
    "rsmq alerts silence all --for 1d --by me --why 'moving to another server'",
)
@call_options("alerts.silence")
def silence(call: Call, /, kind: str, subject: str | None, **values: Any) -> None:
    """
    Silence an alert, or with the KIND all those of the namespace.

    SUBJECT is the queue, the worker or the schedule of the alert. Nothing is sent of its begin and
    its end; when the silence ends, what holds then is sent.
    """
    words = (values["by"], values["why"], values["seconds"])
    with call.open() as rsmq:
        made = rsmq.run_steps(
            _operations().silence_in_steps(rsmq.namespace, kind, subject or "", words)
        )
    until = format_time(made["until_ms"])
    call.out.result(made, f"{_name(kind, subject)}: silent until {until}")


@alerts.subcommand("unsilence KIND [SUBJECT]", "rsmq alerts unsilence not-received orders")
def unsilence(call: Call, kind: str, subject: str | None) -> Exit | None:
    """End a silence. The exit code is 1 if there is none."""
    with call.open() as rsmq:
        ended = rsmq.run_steps(
            _operations().end_silence_in_steps(rsmq.namespace, kind, subject or "")
        )
    call.out.result(
        {"kind": kind, "subject": subject or "", "ended": ended is not None},
        f"{_name(kind, subject)}: {'ended' if ended else 'no such silence'}",
    )
    return None if ended else Exit.NOT_ALL


@alerts.subcommand("silences", "rsmq alerts silences --json")
def silences(call: Call) -> None:
    """Show the silences of alerts."""
    _show(call, _read(call).list_silences(), _OF_SILENCES)


_OF_TARGETS = ("name", "format", "url", "secret_env", "waiting", "failures", "lost", "answer")
_OF_SILENCES = ("kind", "subject", "by", "why", "until_ms")


def _show(call: Call, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    columns = {each.removesuffix("_ms").removesuffix("_env"): each for each in names}
    call.out.table([SimpleNamespace(**each) for each in rows], columns, show=vars)


def _operations() -> Any:
    from rsmq.explain.alerts import record_operations  # noqa: PLC0415 - takes time

    return record_operations


def _read(call: Call) -> AlertRecord:
    with call.open() as rsmq:
        record: AlertRecord = rsmq.run(_operations().read_record(rsmq.namespace))
    return record


def _change(call: Call, name: str, change: Any, done: str) -> Exit | None:
    with call.open() as rsmq:
        is_there = rsmq.run_steps(change(rsmq.namespace, name))
    text = done if is_there else "no such target"
    call.out.result({"name": name, done: is_there}, f"{format_text(name)}: {text}")
    return None if is_there else Exit.NOT_ALL


def _name(kind: str, subject: str | None) -> str:
    return format_text(f"{kind} {subject or ''}".rstrip())
