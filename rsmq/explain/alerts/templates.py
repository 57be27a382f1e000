"""
The bodies of messages about alerts: of webhooks, of Slack, and of PagerDuty. Pure.

Sources: Slack's incoming webhooks, and the Events API v2 of PagerDuty.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rsmq.errors.printable import escape_unprintable
from rsmq.explain.alerts.alert import format_span
from rsmq.explain.alerts.record import AlertMessage, alert_name

_MAX_KEY, _MAX_SUMMARY = 255, 1024
_SEVERITIES = {"bad": "critical", "warn": "warning", "note": "info"}
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def dedup_key(namespace: str, message: AlertMessage) -> str:
    """Return the key of an alert, which its begin and its end have, and each of its returns."""
    key = escape_unprintable(f"rsmq/{namespace}/{alert_name(message.alert)}")
    if len(key) <= _MAX_KEY:
        return key
    return f"rsmq/{hashlib.sha256(key.encode()).hexdigest()}"


def make_body(namespace: str, format: str, message: AlertMessage, secret: str) -> bytes:
    """
    Return the body of a message. It is the same at each attempt.

    Args:
        format: one of the formats of targets.
        secret: PagerDuty's routing key.
    """
    if format == "slack":
        content = _for_slack(namespace, message)
    elif format == "pagerduty":
        content = _for_pagerduty(namespace, message, secret)
    else:
        content = _for_webhook(namespace, message)
    return json.dumps(content).encode()


def _for_webhook(namespace: str, message: AlertMessage) -> Mapping[str, Any]:
    facts = asdict(message.alert)
    del facts["gone_ms"]
    return {
        "type": f"alert.{message.event}",
        "timestamp": _time(message.at_ms),
        "data": {
            "dedup_key": dedup_key(namespace, message),
            "namespace": namespace,
            **{name: _plain(value) for name, value in facts.items()},
            "ended_ms": message.at_ms if message.event == "end" else None,
        },
    }


def _for_slack(namespace: str, message: AlertMessage) -> Mapping[str, Any]:
    alert = message.alert
    text, evidence, name = (
        str(_plain(each)).translate(_SLACK_ESCAPES)
        for each in (alert.text, alert.evidence, namespace)
    )
    if message.event == "end":
        lasted = format_span((message.at_ms - alert.begun_ms) / 1000)
        return {"text": f"*Ended* in {name} after {lasted}: {text}"}
    word = {"bad": "Broken", "warn": "Check", "note": "Note"}.get(alert.level, "Alert")
    return {"text": f"*{word}* in {name}: {text}\n{evidence}"}


def _for_pagerduty(namespace: str, message: AlertMessage, secret: str) -> Mapping[str, Any]:
    alert = message.alert
    event = {"routing_key": secret, "dedup_key": dedup_key(namespace, message)}
    if message.event == "end":
        return {**event, "event_action": "resolve"}
    return {
        **event,
        "event_action": "trigger",
        "payload": {
            "summary": str(_plain(alert.text))[:_MAX_SUMMARY],
            "source": f"rsmq {_plain(namespace)}",
            "severity": _SEVERITIES.get(alert.level, "warning"),
            "timestamp": _time(message.at_ms),
            "component": _plain(alert.subject),
            "class": alert.kind,
            "custom_details": {"evidence": _plain(alert.evidence), "since_ms": alert.since_ms},
        },
    }


def _plain(value: Any) -> Any:
    """Return a value without characters that no receiver can read."""
    return escape_unprintable(value) if isinstance(value, str) else value


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
