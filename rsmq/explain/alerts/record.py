"""
The record of alerts in Redis: a hash with targets, silences, announced alerts, and messages.

Its owners: callers write targets and silences; the server that has the step writes the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from rsmq.errors import InvalidFormat, MissingParameter, show
from rsmq.explain.alerts.alert import Alert, AlertKind
from rsmq.webhooks.addresses import ANY_ADDRESS, AddressRules
from rsmq.webhooks.signatures import check_variable
from rsmq.webhooks.targets import Target, parse_target, redact_url
from rsmq.wire.limits import MAX_SECONDS, check_label, check_whole_number
from rsmq.wire.names import decode_name, encode_name, is_encodable

MAX_TARGETS, MAX_SILENCES = 20, 100
MAX_SUBJECT_CHARACTERS = 1024
#: The formats of messages, each with the URL of a target without one.
FORMATS: Mapping[str, str | None] = {
    "webhook": None,
    "slack": None,
    "pagerduty": "https://events.pagerduty.com/v2/enqueue",
}
#: The beginning of the names of variables whose values may be sent to a target.
ROUTING_KEY_PREFIX = "PAGERDUTY_"
#: The kind of a silence of all alerts, and of the alert that counts those beyond the limit.
ALL, MORE = "all", "more"
#: The field of the step: its begin, Unix ms, and the server that has it.
STEP = "step"
_KINDS = frozenset({*(each.value for each in AlertKind), MORE})
_MAY_BE_NONE = frozenset({"queue", "secret_env", "since_ms", "gone_ms"})
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
#: A target is reported after so many failures in a row, and after a lost message for an hour.
_REPORTED_FAILURES, _REPORTED_MS = 3, 3_600_000


@dataclass(frozen=True, slots=True)
class AlertTarget:
    """
    A target that gets messages about alerts.

    Attributes:
        url: its URL. It may contain a token, also in its path: use ``shown_url``.
        format: one of FORMATS.
        secret_env: the environment variable of the sending servers with the secret that signs
            requests, or with PagerDuty's routing key; None does not sign.
        created_ms: when it was added, Unix ms. It gets alerts that begin later.
    """

    url: str = field(repr=False)
    format: str
    secret_env: str | None
    created_ms: int

    @property
    def shown_url(self) -> str:
        """Its URL without path and query: in Slack's, the path is the secret."""
        return _hide_path(self.url)

    def parse(self, rules: AddressRules, *, allow_http: bool) -> Target:
        """
        Return what may be connected to, without the path in its text.

        Raises:
            MissingParameter, InvalidFormat: see ``parse_target``.
        """
        return _parse_url(self.url, rules, allow_http=allow_http)


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """
    How the last messages to a target went.

    Attributes:
        answer: the last answer, or why there was none.
        failures: attempts in a row that failed, since ``failing_ms``.
        until_ms: no message is sent before, Unix ms.
        lost: messages that were given up, the last one at ``lost_ms``.
    """

    answer: str = ""
    answered_ms: int = 0
    failures: int = 0
    failing_ms: int = 0
    until_ms: int = 0
    lost: int = 0
    lost_ms: int = 0

    def is_reported(self, now_ms: int) -> bool:
        """Return whether it is an alert of its own."""
        is_lost = self.lost > 0 and now_ms - self.lost_ms < _REPORTED_MS
        return self.failures >= _REPORTED_FAILURES or is_lost


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which nothing is announced of an alert, or of all; by whom, and why."""

    by: str
    why: str
    created_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """
    An alert whose begin was announced.

    Attributes:
        begun_ms: when it was announced, Unix ms.
        gone_ms: since when it is gone; None while it lasts.
    """

    kind: str
    level: str
    subject: str
    text: str
    evidence: str
    queue: str | None
    since_ms: int | None
    begun_ms: int
    gone_ms: int | None = None


Event: TypeAlias = Literal["begin", "end"]
EVENTS: tuple[Event, Event] = ("begin", "end")


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """
    A message about an alert to a target.

    Attributes:
        at_ms: when the alert began or ended, Unix ms.
        sender: the server that has claimed it; empty if none has.
        claimed_ms: since when.
    """

    target: str
    event: Event
    at_ms: int
    alert: OpenAlert
    sender: str = ""
    claimed_ms: int = 0


Stored: TypeAlias = AlertTarget | TargetStatus | Silence | OpenAlert | AlertMessage
#: A field, the value that it is expected to have, and the new one; empty is none.
Change: TypeAlias = tuple[str, bytes, bytes]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AlertRecord:
    """
    The record as it was read at one time.

    Attributes:
        now_ms: the server's time, Unix ms.
        fields: as they are stored.
    """

    now_ms: int = 0
    fields: dict[str, bytes] = field(default_factory=dict)
    targets: dict[str, AlertTarget] = field(default_factory=dict)
    statuses: dict[str, TargetStatus] = field(default_factory=dict)
    silences: dict[str, Silence] = field(default_factory=dict)
    open: dict[str, OpenAlert] = field(default_factory=dict)
    messages: dict[str, AlertMessage] = field(default_factory=dict)

    @property
    def step_ms(self) -> int:
        """When the last step began, Unix ms; 0 if there was none."""
        begun = self.fields.get(STEP, b"").partition(b":")[0]
        return int(begun) if begun.isdigit() else 0

    def silence_of(self, kind: str, subject: str) -> Silence | None:
        """Return the silence of an alert that ends last; None if it has none."""
        found = map(self.silences.get, (silence_name(ALL), silence_name(kind, subject)))
        lasting = [each for each in found if each is not None and each.until_ms > self.now_ms]
        return max(lasting, key=lambda each: each.until_ms, default=None)

    def change(self, field: str, new: Stored | None) -> Change:
        """Return the change of a field; None removes it."""
        return field, self.fields.get(field, b""), b"" if new is None else encode(new)

    def list_targets(self) -> list[dict[str, Any]]:
        """Return the targets as they are shown, each with how its last messages went."""
        waiting = [each.target for each in self.messages.values()]
        return [
            {
                "name": name,
                **asdict(each),
                "url": each.shown_url,
                "waiting": waiting.count(name),
                **asdict(self.statuses.get(name, TargetStatus())),
            }
            for name, each in self.targets.items()
        ]

    def list_silences(self) -> list[dict[str, Any]]:
        """Return the silences that last, as they are shown."""
        return [
            show_silence(name, each)
            for name, each in self.silences.items()
            if each.until_ms > self.now_ms
        ]

    def reported_targets(self) -> Iterator[tuple[str, TargetStatus]]:
        """Yield the targets to which messages fail, each with its status."""
        for name in sorted(self.targets):
            status = self.statuses.get(name)
            if status is not None and status.is_reported(self.now_ms):
                yield name, status


def parse_record(now_ms: int, fields: Mapping[bytes, bytes]) -> AlertRecord:
    """Return the record of stored fields; those that can't be read are left out."""
    record = AlertRecord(now_ms, {decode_name(name): value for name, value in fields.items()})
    readers: dict[str, tuple[dict[str, Any], Any]] = {
        "target": (record.targets, AlertTarget),
        "status": (record.statuses, TargetStatus),
        "silence": (record.silences, Silence),
        "alert": (record.open, OpenAlert),
        "message": (record.messages, _make_message),
    }
    for key, value in sorted(record.fields.items()):
        part, _, name = key.partition(":")
        if part in readers:
            found, make = readers[part]
            try:
                found[name] = make(**_check_types(json.loads(value)))
            except (ValueError, TypeError, AttributeError):
                continue
    return record


def _make_message(alert: dict[str, Any], **values: Any) -> AlertMessage:
    return AlertMessage(alert=OpenAlert(**_check_types(alert)), **values)


def _check_types(values: dict[str, Any]) -> dict[str, Any]:
    """Return stored values, which another program may have written; raise TypeError for others."""
    for name, value in values.items():
        is_number = name.endswith("_ms") or name in {"failures", "lost"}
        wanted = int if is_number else dict if name == "alert" else str
        if not isinstance(value, wanted) and not (value is None and name in _MAY_BE_NONE):
            raise TypeError(name)
    return values


def encode(value: Stored) -> bytes:
    """Return a value as it is stored: JSON."""
    return json.dumps(asdict(value), separators=(",", ":"), sort_keys=True).encode()


def encode_change(change: Change) -> tuple[bytes, bytes, bytes]:
    """Return the words of a change."""
    return encode_name(change[0]), change[1], change[2]


def alert_name(alert: Alert | OpenAlert) -> str:
    """Return what an alert is known by, while it lasts and when it comes again."""
    kind = alert.kind if isinstance(alert.kind, str) else alert.kind.value
    return f"{kind}:{alert.subject}"


def silence_name(kind: str, subject: str = "") -> str:
    """Return the name of the silence of an alert, or of ALL."""
    return kind if kind == ALL else f"{kind}:{subject}"


def show_silence(name: str, silence: Silence) -> dict[str, Any]:
    """Return a silence as it is shown."""
    kind, _, subject = name.partition(":")
    return {"kind": kind, "subject": subject, **asdict(silence)}


def check_target_name(name: object) -> str:
    """
    Return the name of a target, if it is valid.

    Raises:
        MissingParameter: it is None or empty.
        InvalidFormat: it has other characters.
    """
    if name is None or name == "":
        raise MissingParameter("target", value=name, hint="Give the target a name.")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat(
            "target", value=show(name), hint="It has 1 to 64 characters of A-Z a-z 0-9 _ -."
        )
    return name


def make_target(url: str | None, format: str, secret_env: str | None, now_ms: int) -> AlertTarget:
    """
    Return a target, checked but for what the sending servers allow.

    Raises:
        MissingParameter: there is no URL, or no variable with PagerDuty's routing key.
        InvalidFormat: one of the arguments is invalid.
    """
    if format not in FORMATS:
        raise InvalidFormat(
            "format", value=show(format), hint=f"It is one of {', '.join(FORMATS)}."
        )
    check_secret_env(format, secret_env)
    if format == "slack" and secret_env is not None:
        raise InvalidFormat(
            "secret_env", value=secret_env, hint="Slack's secret is in its URL. Leave it out."
        )
    url = url or FORMATS[format]
    _parse_url(url, ANY_ADDRESS, allow_http=True)
    return AlertTarget(str(url), format, secret_env, now_ms)


def check_secret_env(format: str, name: str | None) -> None:
    """
    Check the name of an environment variable with the secret of a target.

    That of PagerDuty is sent to the URL of the target, so it has a prefix: who may add a target
    must not read other secrets of the servers.

    Raises:
        MissingParameter: there is no variable with PagerDuty's routing key.
        InvalidFormat: it is not the name of a variable for this format.
    """
    if name is not None:
        check_variable(name)
    elif format == "pagerduty":
        raise MissingParameter(
            "secret_env",
            hint="It is the name of an environment variable of the servers that has the routing "
            "key of an integration with the Events API v2.",
        )
    if format == "pagerduty" and not str(name).startswith(ROUTING_KEY_PREFIX):
        raise InvalidFormat(
            "secret_env",
            value="(not shown)",
            hint=f"The name of a variable with a routing key begins with {ROUTING_KEY_PREFIX}, "
            "because its value is sent to the target.",
        )


def make_silence(by: str, why: str, seconds: object, now_ms: int) -> Silence:
    """
    Return a silence that begins now.

    Raises:
        InvalidFormat: ``by`` or ``why`` is not a text of 1 to 128 characters.
        InvalidValue: the seconds are not 1 to 9,999,999.
    """
    check_label("by", by)
    check_label("why", why)
    duration = check_whole_number("seconds", seconds, 1, MAX_SECONDS)
    return Silence(by, why, now_ms, now_ms + duration * 1000)


def check_kind(kind: str) -> str:
    """
    Return the kind of alerts that a silence is for.

    Raises:
        InvalidFormat: there is no such kind.
    """
    if kind != ALL and kind not in _KINDS:
        raise InvalidFormat(
            "kind", value=show(kind), hint=f"It is {ALL}, or one of {', '.join(sorted(_KINDS))}."
        )
    return kind


def check_subject(subject: str) -> str:
    """
    Return the subject of a silence, if an alert can have it.

    Raises:
        InvalidFormat: it is too long, or can't be encoded.
    """
    if len(subject) > MAX_SUBJECT_CHARACTERS or not is_encodable(subject):
        raise InvalidFormat(
            "subject",
            value=show(subject),
            hint=f"It is that of an alert: a text of at most {MAX_SUBJECT_CHARACTERS:,} "
            "characters.",
        )
    return subject


def _hide_path(url: str) -> str:
    parts = urlsplit(redact_url(url))
    return f"{parts.scheme}://{parts.netloc}/***" if parts.netloc else "(not a URL)"


def _parse_url(url: str | None, rules: AddressRules, *, allow_http: bool) -> Target:
    try:
        target = parse_target(url, allow_http=allow_http, rules=rules)
    except InvalidFormat as error:
        raise InvalidFormat("url", value=_hide_path(str(url)), hint=error.hint) from None
    return replace(target, shown=_hide_path(target.url))
