"""
The arguments of calls beside the options of sends and the attributes of queues.

From these rows follow the options of the program with their help, the fields of HTTP and its
OpenAPI document, and the names of arguments in errors. Tests compare them with the methods, and
send each face values out of their ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rsmq.vocabulary.sends import ValueKind, fill_in
from rsmq.wire.limits import MAX_BATCH, MAX_LABEL, MAX_RECEIVES, MAX_SECONDS

_UNITS = {ValueKind.SECONDS: " seconds", ValueKind.LABEL: " characters"}


@dataclass(frozen=True, slots=True)
class CallArgument:
    """
    An argument of calls.

    Attributes:
        name: that of the methods.
        kind: the type of its value.
        text: what it is, with the names of arguments in braces. Faces add the range and the
            default, unless it is a whole sentence.
        low: the smallest value of a number, or length of a text.
        high: the largest one.
        choices: the values of a text.
        default: what the faces pass without it; None passes nothing.
        unset: what is so without it, if it has no default.
        detail: further sentences.
        is_required: whether the faces need it.
        option: the names of its option of the program; None if it has none there.
        word: its value in the help of the program, if that is not the one of its kind.
        field: its name over HTTP; None if it has none there.
        http_high: the largest value over HTTP, if that is another one.
        http_default: the default over HTTP, if that is another one.
        http_detail: further sentences over HTTP.
    """

    name: str
    kind: ValueKind
    text: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    default: str | float | None = None
    unset: str = ""
    detail: str = ""
    is_required: bool = False
    option: str | None = ""
    word: str = ""
    field: str | None = ""
    http_high: float | None = None
    http_default: float | None = None
    http_detail: str = ""

    @property
    def option_name(self) -> str:
        """The shortest name of its option of the program; empty if it has none there."""
        if self.option is None:
            return ""
        return self.option.split(", ")[-1] or f"--{self.name.replace('_', '-')}"

    @property
    def field_name(self) -> str:
        """Its name over HTTP; empty if it has none there."""
        return "" if self.field is None else self.field or self.name

    def describe(self, name_of: Callable[[str], str], unset: str, high: float | None = None) -> str:
        """
        Return the text.

        Args:
            name_of: returns the name that a face has for an argument.
            unset: what is so without it; empty if the face says it elsewhere.
            high: the largest value, if the face has another one.
        """
        text = fill_in(self.text, name_of)
        if not text.endswith("."):
            if self.high is not None:
                text += f", {self.low:,} to {high or self.high:,}{_UNITS.get(self.kind, '')}"
            text += f"; {unset} by default." if unset else "."
        return f"{text} {fill_in(self.detail, name_of)}".rstrip()


def _number(name: str, of: str, high: int, default: int | None, field: str) -> CallArgument:
    return CallArgument(
        name, ValueKind.WHOLE_NUMBER, f"The highest number of {of}", 1, high, default=default,
        option="--count, --number, -n", field=field,
    )  # fmt: skip


def _wait_for(name: str, what: str) -> CallArgument:
    return CallArgument(
        name, ValueKind.SECONDS, f"How long to wait for {what}", 0, MAX_SECONDS, default=0,
        option="--wait", field="wait", http_high=60,
    )  # fmt: skip


def _choice(name: str, text: str, *choices: str, **more: Any) -> CallArgument:
    return CallArgument(name, ValueKind.CHOICE, text, choices=choices, **more)


#: Arguments of several calls, or of one of them.
MAX_MESSAGES = replace(
    _number("max_messages", "messages", MAX_BATCH, 1, "max"), option="--number, -n"
)
MAX_SWEPT = replace(MAX_MESSAGES, default=1000)
MAX_RECOVERED = replace(MAX_MESSAGES, default=10, http_default=1)
MAX_REDRIVEN = replace(
    MAX_MESSAGES, high=10**9, default=None, unset="all", http_high=10_000, http_default=1000
)
VT = CallArgument(
    "vt", ValueKind.SECONDS, "How long to hide the messages", 0, MAX_SECONDS,
    unset="the queue's vt",
)  # fmt: skip
NEW_VT = replace(
    VT, text="How long to hide the messages from now on", unset="", is_required=True,
    detail="0 makes them visible.",
)  # fmt: skip
WAIT = replace(_wait_for("wait", "the first message"), word="WAIT")
WAIT_FOR_END = _wait_for("timeout", "its end")
TIMEOUT = CallArgument(
    "timeout", ValueKind.SECONDS, "How long the call may take with all its attempts", 0.001,
    86_400, field=None,
)  # fmt: skip
EXTEND_GROUPS = CallArgument(
    "extend_groups", ValueKind.FLAG,
    "Whether the messages behind that of a group are received too, in their order, as far as the "
    "highest number allows.",
)  # fmt: skip
EXIST_OK = CallArgument(
    "exist_ok", ValueKind.FLAG, "Succeed if the queue exists; its attributes are not changed.",
    field=None,
)  # fmt: skip
IDLE = CallArgument(
    "idle", ValueKind.SECONDS, "How long ago their last receive was at least", 0,
    MAX_SECONDS, is_required=True, detail="0 is all messages in flight.",
)  # fmt: skip
START = CallArgument(
    "start", ValueKind.WHOLE_NUMBER, "The position of the first message, from 0; -1 is the last.",
    -(10**9), 10**9, default=0, detail="With {state}, it counts only those in this state.",
)  # fmt: skip
COUNT = _number("count", "messages", MAX_BATCH, 10, "limit")
MESSAGE_STATE = _choice(
    "state", "Only messages in this state.", "visible", "in_flight", "retrying", "delayed",
    "held_back",
)  # fmt: skip
BEGIN = CallArgument(
    "start", ValueKind.TIME, "The begin", unset="an hour before the end", option=None,
    field="from",
)  # fmt: skip
END = CallArgument("end", ValueKind.TIME, "The end", unset="now", option=None, field="to")
STEP = CallArgument(
    "step", ValueKind.WHOLE_NUMBER, "The seconds of a step", 60, 86_400, default=60,
    word="DURATION",
    detail="It is whole minutes that divide an hour, or whole hours that divide a day.",
)  # fmt: skip
MARK = CallArgument(
    "text", ValueKind.LABEL, "What happens, such as a version", 1, MAX_LABEL, is_required=True,
    option=None,
)  # fmt: skip
MARKED_BY = CallArgument(
    "by", ValueKind.LABEL, "Who or what marks it", 1, MAX_LABEL, word="WHO", field=None
)
SPAN = _choice(
    "span", "How far back", "1h", "24h", "7d", "90d", default="1h",
    detail="Its steps are a minute, an hour, six hours or a day.",
)  # fmt: skip
DESTINATION = CallArgument(
    "destination", ValueKind.LABEL, "The queue that gets them", option="--to", word="QUEUE",
    is_required=True,
)  # fmt: skip
REDRIVE_DESTINATION = replace(
    DESTINATION, text="The queue that gets them.", is_required=False,
    detail="By default each goes to the queue that it came from, as its reason says, or to the "
    "only one whose policy names this dead-letter queue.",
    http_detail="That is for callers that may send to all queues.",
)  # fmt: skip
JOB_STATE = _choice(
    "state", "Only jobs in this state.", "waiting", "running", "retrying", "succeeded", "failed",
    "cancelled", "expired",
)  # fmt: skip
MAX_JOBS = _number("max_jobs", "jobs", 10_000, 100, "limit")
FLOW_STATE = _choice(
    "state", "Only flows in this state.", "running", "succeeded", "failed", "cancelled"
)
MAX_FLOWS = _number("max_flows", "flows", 1000, 100, "limit")
ORDER_SECONDS = CallArgument(
    "seconds", ValueKind.SECONDS, "How long until a pause or a concurrency ends by itself", 1,
    MAX_SECONDS, default=86_400, option="--for",
)  # fmt: skip
CONCURRENCY = CallArgument(
    "concurrency", ValueKind.WHOLE_NUMBER, "The number of calls that run at once", 1, 10_000,
    unset="its own", option=None,
)  # fmt: skip
GRACE = CallArgument(
    "grace", ValueKind.SECONDS, "How long its calls may still run", 0, MAX_SECONDS,
    unset="its own",
)  # fmt: skip
#: Those of a schedule, beside the options of its messages.
SCHEDULED = (
    CallArgument(
        "cron", ValueKind.LABEL, "Five fields, six with seconds, or as @daily.", word="EXPRESSION"
    ),
    CallArgument(
        "every", ValueKind.SECONDS, "The time between two messages, instead of {cron}", 0.1,
        MAX_SECONDS,
    ),
    CallArgument(
        "timezone", ValueKind.LABEL, "The time zone of {cron}", unset="UTC", word="ZONE"
    ),
    _choice(
        "missed", "What happens to times at which no process ran", "skip", "once", "all",
        default="once",
    ),
    CallArgument(
        "jitter", ValueKind.SECONDS, "By how much a message is sent later at most, at random", 0,
        86_400, default=0,
    ),
    CallArgument(
        "tick_field", ValueKind.LABEL, "The field of the body, a JSON object, that gets the time.",
        word="FIELD",
    ),
    CallArgument(
        "version", ValueKind.WHOLE_NUMBER, "The version", unset="the stored one"
    ),
)  # fmt: skip
#: Those of alerts, whose servers send them.
ALERT_URL = CallArgument(
    "url", ValueKind.LABEL, "The URL that gets the messages", unset="for pagerduty its Events API",
    option=None,
)  # fmt: skip
ALERT_FORMAT = _choice(
    "format", "The format of the messages", "webhook", "slack", "pagerduty", default="webhook"
)
ALERT_SECRET = CallArgument(
    "secret_env", ValueKind.LABEL, "The environment variable of the servers with the secret that "
    "signs the requests, or with PagerDuty's routing key.", word="VARIABLE",
)  # fmt: skip
ALERT_SUBJECT = CallArgument(
    "subject", ValueKind.LABEL, "The subject of the alert: a queue, a worker, a schedule, a "
    "target or a task as queue/task; without it, the alert of the server.", option=None,
)  # fmt: skip
SILENCE_SECONDS = CallArgument(
    "seconds", ValueKind.WHOLE_NUMBER, "For how many seconds", 1, MAX_SECONDS, is_required=True,
    option="--for", word="DURATION",
)  # fmt: skip
SILENCE_WHY = CallArgument("why", ValueKind.LABEL, "Why", 1, MAX_LABEL, is_required=True)
SILENCED_BY = CallArgument(
    "by", ValueKind.LABEL, "Who silences it", 1, MAX_LABEL, is_required=True, word="WHO", field=None
)
#: Those of a subscriber, to which rsmq push sends.
SUBSCRIBED = (
    CallArgument(
        "url", ValueKind.LABEL, "The URL that gets the messages.", is_required=True, option=None
    ),
    CallArgument(
        "secret_env", ValueKind.LABEL, "The environment variable of the pushers with the secret "
        "that signs the requests; with both, if it has two with a blank between them.",
        word="VARIABLE",
    ),
    CallArgument(
        "content_type", ValueKind.LABEL, "The media type of the bodies",
        unset="application/octet-stream", word="TYPE",
    ),
    CallArgument(
        "concurrency", ValueKind.WHOLE_NUMBER, "How many messages each pusher pushes at a time", 1,
        1000, default=8,
    ),
    CallArgument(
        "max_retries", ValueKind.WHOLE_NUMBER, "Retries before a message is a dead letter", 0,
        MAX_RECEIVES, unset="those of the policy of its own queue, or 5",
    ),
)  # fmt: skip
