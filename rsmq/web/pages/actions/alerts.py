"""
Actions on the targets of alerts, and on silences.
"""

from __future__ import annotations

from rsmq.explain.alerts.record import ALL, FORMATS
from rsmq.web.pages.actions.form import Fields, Input, PageAction, one, options_of
from rsmq.web.pages.formats import show_name

_TARGET, _SILENCE = "/alert-targets/{target}", "/alert-silences/{kind}"
_SPANS = (("3600", "an hour"), ("28800", "8 hours"), ("86400", "a day"), ("604800", "a week"))
_OF_ALERTS = "the target {target} of alerts"


def _alert(fields: Fields) -> str:
    if one(fields, "kind") == ALL:
        return "all alerts"
    subject = one(fields, "subject")
    return f"the alert {show_name(one(fields, 'kind'))}" + (
        f" of {show_name(subject)}" if subject else ""
    )


def _words_of_alert(fields: Fields) -> list[str]:
    words = (one(fields, "kind", "KIND"), one(fields, "subject"))
    return ["--", *(each for each in words if each)]


ACTIONS = (
    PageAction(
        "add-alert-target", f"PUT {_TARGET}", "Add", "a target of alerts",
        "The target {target} was added: it gets alerts that begin from now on.",
        command=lambda f: [
            "alerts", "add", *options_of(f, "format", "secret_env"), "--",
            one(f, "target", "NAME"), *([one(f, "url")] if one(f, "url") else []),
        ],
        back="alerts",
        inputs=(
            Input("target", "Name", hint="Letters, digits, _ and -. One of this name is changed."),
            Input("format", "Format", choices=tuple((each, each) for each in FORMATS)),
            Input("url", "URL", hint="It gets each message as a POST. Leave it empty for "
                  "PagerDuty."),
            Input("secret_env", "Variable with the secret"),
        ),
        recorded=_OF_ALERTS,
    ),
    PageAction(
        "remove-alert-target", f"DELETE {_TARGET}", "Remove", _OF_ALERTS, "",
        "Sends nothing more to {target}, not even the end of open alerts.",
        back="alerts",
    ),
    PageAction(
        "test-alert-target", f"POST {_TARGET}:test", "Test", _OF_ALERTS,
        "The target {target} is tested: a server sends a test alert within 15 seconds.",
        back="alerts",
    ),
    PageAction(
        "silence-alert", f"PUT {_SILENCE}", "Silence", _alert,
        command=lambda f: [
            "alerts", "silence", f"--for={one(f, 'seconds', '3600')}", "--by=WHO",
            f"--why={one(f, 'why', 'WHY')}", *_words_of_alert(f),
        ],
        back="alerts",
        inputs=(
            Input("seconds", "For", value="3600", choices=_SPANS),
            Input("why", "Why"),
        ),
        address=("subject",), recorded="alerts ({kind}) of {queue}",
    ),
    PageAction(
        "end-silence", f"DELETE {_SILENCE}", "End", lambda f: f"the silence of {_alert(f)}",
        command=lambda f: ["alerts", "unsilence", *_words_of_alert(f)], back="alerts",
        address=("subject",), recorded="a silence of alerts ({kind}) of {queue}",
    ),
)  # fmt: skip
