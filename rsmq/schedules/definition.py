"""
A schedule: its definition, and its state, as they are stored.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, cast, get_args

from rsmq.codecs import Codec, bind_codec, check_codec
from rsmq.codecs.body_fields import body_fields
from rsmq.errors import InvalidFormat, InvalidValue, MissingParameter, RSMQError, show
from rsmq.operations.arguments import encode_body
from rsmq.operations.send_options import SendOptions, check_send
from rsmq.schedules.arguments import ScheduleArguments
from rsmq.schedules.missed import Missed
from rsmq.schedules.ticks import check_cron, find_zone, to_time, upcoming_ticks
from rsmq.vocabulary.sends import BATCH, SCHEDULE, ValueKind, as_batch, read_options
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import MAX_SECONDS, Seconds, check_whole_number, to_milliseconds, utf16_length

#: Whether code declares a definition (``worker.schedule``), or a call has added it.
Source = Literal["code", "call"]

#: The largest body of a schedule, in bytes.
MAX_BODY_BYTES = 65_536
MAX_VERSION = 2**53
MIN_EVERY_MS = 100
MAX_JITTER_SECONDS = 86_400

_FORM = 1
#: That of a schedule whose messages have options: a version without them would omit these.
_FORM_WITH_OPTIONS = 2
#: The own arguments of a schedule, beside the options of a send.
_DEFAULTS: dict[str, Any] = {
    "cron": None, "every": None, "queue": None, "body": "", "timezone": None, "codec": None,
    "missed": "once", "jitter": 0, "tick_field": None, "version": None,
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,160}")
_NAME_RULE = "The name of a schedule has 1 to 160 characters of A-Z a-z 0-9 . _ -"


class BrokenDefinition(ValueError):
    """A stored definition can't be read; its text says why."""


class NewerForm(BrokenDefinition):
    """A newer version of this library has stored it, whose processes can read it."""


class UnknownZone(BrokenDefinition):
    """This process has no data of the time zone; another one may have them."""


def check_schedule_name(name: object) -> str:
    """
    Check the name of a schedule, and return it.

    Raises:
        MissingParameter: it is None or empty.
        InvalidFormat: it has other characters.
    """
    if name is None or name == "":
        raise MissingParameter("name", value=name, hint=f"{_NAME_RULE}.")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidFormat("name", value=show(name), hint=f"{_NAME_RULE}.")
    return name


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """
    The definition of a schedule.

    Attributes:
        name: its name.
        queue: the queue that it sends to.
        cron: the expression; None if it has an interval.
        every: the interval in seconds; None if it has an expression.
        timezone: the time zone of the expression.
        body: the body as the bytes that are sent.
        size: its size, as maxsize counts it.
        missed: what happens to ticks that no process has fired in time.
        jitter: seconds; each tick is delayed by a random time up to this.
        tick_field: the field of a JSON body that gets the time of the tick; None for none.
        realtime: whether each send publishes Node's notification.
        version: a later version replaces an earlier one; code with an earlier one changes nothing.
        source: ``code`` if a worker declares it, ``call`` if it was added at run time.
        options: the options of a send that its messages have, by name, as values of JSON.
    """

    name: str
    queue: str
    cron: str | None
    every: float | None
    timezone: str
    body: bytes
    size: int
    missed: Missed
    jitter: float
    tick_field: str | None
    realtime: bool
    version: int
    source: Source
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        """Return an option of the messages; None if they do not have it."""
        if name not in SCHEDULE.options:
            raise AttributeError(f"ScheduleDefinition has no attribute {name!r}")
        return self.options.get(name)

    def send_options(self, number: int) -> tuple[bytes, SendOptions]:
        """Return the delay of its messages, and their options, for a send of so many."""
        delay, options = check_send(as_batch(self.options, number), BATCH, number)
        return delay, options or SendOptions({})

    @property
    def rule(self) -> str | int:
        """The expression, or the interval in ms, as ``ticks.py`` takes it."""
        return round(cast("float", self.every) * 1000) if self.cron is None else self.cron

    def has_same_times(self, other: ScheduleDefinition) -> bool:
        """Return whether both have the same ticks."""
        return (self.rule, self.timezone) == (other.rule, other.timezone)

    def body_of(self, tick_ms: int) -> tuple[bytes, int]:
        """Return the body of a tick, and its size as maxsize counts it."""
        if self.tick_field is None:
            return self.body, self.size
        fields = {**json.loads(self.body), self.tick_field: show_time(tick_ms)}
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return text.encode(), utf16_length(text)


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """
    A schedule as it is stored: its definition and its state.

    Attributes:
        name: its name.
        definition: its definition; None if it can't be read.
        next_tick_at: its next tick, which may be due already; None while it is paused, or if there
            is none.
        next_attempt_at: the time from which the tick is fired: later than the tick by the jitter,
            or after a failure. None as above.
        paused_at: since when it is paused; None if it is not.
        last_tick_at: the last tick that was fired; None if none was.
        last_sent_at: when that was done.
        last_message_id: the id of its message, or of the earlier one that had its unique_key; None
            if the tick was skipped.
        failure: why the last attempt failed; None if it did not. Also why a definition can't be
            read.
        failed_at: when it failed last.
        failures: how often in a row it has failed.
    """

    name: str
    definition: ScheduleDefinition | None
    next_tick_at: datetime | None
    next_attempt_at: datetime | None
    paused_at: datetime | None
    last_tick_at: datetime | None
    last_sent_at: datetime | None
    last_message_id: str | None
    failure: str | None
    failed_at: datetime | None
    failures: int

    def upcoming(self, number: int) -> list[datetime]:
        """
        Return the next ticks, without the jitter; none while it is paused.

        Args:
            number: the number of ticks, 1 to 1,000.

        Raises:
            InvalidValue: number is out of range.
            MissingExtra: the extra ``schedules`` is not installed, for an expression.
        """
        count = check_whole_number("number", number, 1, 1000)
        if self.definition is None or self.next_tick_at is None:
            return []
        zone = find_zone(self.definition.timezone)
        first = round(self.next_tick_at.timestamp() * 1000)
        ticks = upcoming_ticks(self.definition.rule, zone, first, count - 1)
        return [self.next_tick_at, *map(to_time, ticks)]


def show_time(ms: int) -> str:
    """Return Unix ms as ISO 8601 in UTC, with milliseconds only if there are some."""
    unit = "milliseconds" if ms % 1000 else "seconds"
    return to_time(ms).isoformat(timespec=unit).replace("+00:00", "Z")


def make_definition(
    namespace: Namespace,
    name: str,
    arguments: ScheduleArguments,
    *,
    codec: Codec,
    realtime: bool,
    source: Source,
) -> ScheduleDefinition:
    """
    Check the arguments of a schedule, and return its definition.

    Args:
        arguments: those of ``AsyncSchedules.add``.
        codec, realtime: those of the client.

    Raises:
        The errors of ``AsyncSchedules.add``.
        TypeError: there is no such argument.
    """
    check_schedule_name(name)
    own: dict[str, Any] = {key: arguments.get(key, default) for key, default in _DEFAULTS.items()}
    keys = namespace.queue(own["queue"])
    cron, every, missed, version = own["cron"], own["every"], own["missed"], own["version"]
    if (cron is None) == (every is None):
        raise InvalidFormat(
            "cron", value=show(cron), hint="Pass either cron or every, one of them."
        )
    if cron is None and own["timezone"] is not None:
        raise InvalidFormat(
            "timezone", value=show(own["timezone"]), hint="It belongs to cron; every has none."
        )
    zone_name = "UTC" if own["timezone"] is None else own["timezone"]
    zone = find_zone(zone_name)
    if missed not in get_args(Missed):
        raise InvalidFormat("missed", value=show(missed), hint="It is 'skip', 'once' or 'all'.")
    chosen = codec if own["codec"] is None else check_codec(own["codec"])
    raw, size = _encode_body(own["body"], bind_codec(chosen, keys.zset))
    if own["tick_field"] is not None:
        _check_tick_field(own["tick_field"], raw)
    options = {key: value for key, value in arguments.items() if key not in _DEFAULTS}
    definition = ScheduleDefinition(
        name=name,
        queue=own["queue"],
        cron=None if cron is None else check_cron(cron, zone),
        every=None if every is None else _check_every(every),
        timezone=zone_name,
        body=raw,
        size=size,
        missed=missed,
        jitter=_check_seconds("jitter", own["jitter"], 0, MAX_JITTER_SECONDS),
        tick_field=own["tick_field"],
        realtime=realtime,
        version=0 if version is None else check_whole_number("version", version, 0, MAX_VERSION),
        source=source,
        options=read_options(options, SCHEDULE),
    )
    definition.send_options(1)
    return replace(definition, options=_as_json(definition.options))


def _encode_body(body: object, codec: Codec) -> tuple[bytes, int]:
    raw, size = encode_body(body, codec)
    if len(raw) > MAX_BODY_BYTES:
        raise InvalidValue(
            "the bytes of body",
            0,
            MAX_BODY_BYTES,
            value=len(raw),
            hint="Store the data elsewhere, and send its location.",
        )
    return raw, size


def _as_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked options as values of JSON."""
    return {
        name: to_milliseconds(name, value) / 1000
        if SCHEDULE.options[name].kind is ValueKind.SECONDS
        else value
        for name, value in options.items()
    }


def _check_every(every: Seconds) -> float:
    return _check_seconds("every", every, MIN_EVERY_MS / 1000, MAX_SECONDS)


def _check_seconds(item: str, value: Seconds, least: float, most: float) -> float:
    """Return seconds, rounded to ms; the error for any other value names this range."""
    try:
        seconds = to_milliseconds(item, value) / 1000
    except InvalidValue:
        seconds = -1.0
    if not least <= seconds <= most:
        raise InvalidValue(item, least, most, value=value, hint="Pass a number of seconds.")
    return seconds


def _check_tick_field(tick_field: object, raw: bytes) -> None:
    if not isinstance(tick_field, str) or not tick_field:
        raise InvalidFormat("tick_field", value=show(tick_field), hint="It is the name of a field.")
    try:
        is_object = isinstance(json.loads(raw), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise InvalidFormat(
            "tick_field",
            value=tick_field,
            hint="The body must be a JSON object.",
        )


def encode_definition(definition: ScheduleDefinition) -> bytes:
    """Return a definition as it is stored: JSON, equal for equal definitions."""
    fields: dict[str, Any] = {
        "form": _FORM_WITH_OPTIONS if definition.options else _FORM,
        "queue": definition.queue,
        "missed": definition.missed,
        "jitter": definition.jitter,
        "realtime": definition.realtime,
        "version": definition.version,
        "source": definition.source,
        "size": definition.size,
        **definition.options,
        **body_fields(definition.body),
    }
    if definition.cron is None:
        fields["every"] = definition.every
    else:
        fields["cron"] = definition.cron
        fields["timezone"] = definition.timezone
    if definition.tick_field is not None:
        fields["tick_field"] = definition.tick_field
    return json.dumps(fields, ensure_ascii=False, sort_keys=True).encode()


def decode_definition(name: str, stored: bytes) -> ScheduleDefinition:
    """
    Return a definition from its stored form.

    Raises:
        BrokenDefinition: it is not one.
        NewerForm: it was stored by a newer version of this library.
    """
    try:
        fields = json.loads(stored)
        form = fields["form"]
        if isinstance(form, int) and form > _FORM_WITH_OPTIONS:
            raise NewerForm(f"its form is {form}, of a newer version of rsmq: update this one")
        if form not in {_FORM, _FORM_WITH_OPTIONS}:
            raise BrokenDefinition(f"its form is {show(form)}")
        body = fields["body"].encode() if "body" in fields else _decode_base64(fields)
        definition = ScheduleDefinition(
            name,
            fields["queue"],
            fields.get("cron"),
            fields.get("every"),
            fields.get("timezone", "UTC"),
            body,
            int(fields["size"]),
            fields["missed"],
            float(fields["jitter"]),
            fields.get("tick_field"),
            bool(fields["realtime"]),
            int(fields["version"]),
            fields["source"],
            {name: fields[name] for name in SCHEDULE.options if fields.get(name) is not None},
        )
        if (definition.cron is None) == (definition.every is None):
            raise BrokenDefinition("it needs one of cron and every")
        if definition.every is not None:
            _check_every(definition.every)
        if definition.missed not in get_args(Missed):
            raise BrokenDefinition(f"missed is {show(definition.missed)}")
        if not isinstance(definition.queue, str) or not isinstance(definition.timezone, str):
            raise BrokenDefinition("queue and timezone are texts")
        if definition.tick_field is not None:
            _check_tick_field(definition.tick_field, body)
        definition.send_options(1)
        _check_zone(definition.timezone)
    except (KeyError, TypeError, ValueError, AttributeError, RSMQError) as error:
        if isinstance(error, BrokenDefinition):
            raise
        raise BrokenDefinition(f"{type(error).__name__}: {error}") from error
    return definition


def _check_zone(timezone: str) -> None:
    try:
        find_zone(timezone)
    except InvalidFormat as error:
        raise UnknownZone(f"{error}. Install tzdata") from error


def _decode_base64(fields: dict[str, Any]) -> bytes:
    return base64.b64decode(fields["body_base64"], validate=True)


def decide_definition(
    stored: ScheduleDefinition | None, new: ScheduleDefinition, *, keeps_version: bool
) -> ScheduleDefinition | None:
    """
    Return the definition to store in place of another one; None leaves that one.

    A call always replaces. Code replaces an earlier version, and what code has declared with the
    same version. So an older deployment does not replace a newer one, and code does not replace
    what a call has changed, before its version is raised.

    Args:
        stored: the definition that is stored; None if there is none, or it can't be read.
        new: the new one.
        keeps_version: whether a call has not set the version: then it stays as it is.
    """
    if stored is None:
        return new
    if new.source == "call":
        return replace(new, version=stored.version) if keeps_version else new
    is_newer = new.version > stored.version
    return new if is_newer or (new.version == stored.version and stored.source == "code") else None
