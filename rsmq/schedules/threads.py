# Generated from rsmq/schedules/asyncio_.py by scripts/generate-sync. Do not edit.
"""
``queues.schedules`` of the synchronous clients.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Unpack

from rsmq.codecs import Codec
from rsmq.schedules.arguments import ScheduleArguments
from rsmq.schedules.definition import (
    ScheduleDefinition,
    StoredSchedule,
    check_schedule_name,
    make_definition,
)
from rsmq.schedules.operations import (
    no_schedule,
    pause_schedule,
    read_schedules,
    remove_schedule,
    resume_schedule,
    run_schedule,
    store_definition,
)
from rsmq.transport.threads.bodies import encode_with
from rsmq.vocabulary.send_arguments import ScheduleSendArguments
from rsmq.vocabulary.sends import SCHEDULE
from rsmq.vocabulary.signatures import takes_options_of


class Schedules:
    """
    The schedules of a namespace: messages that are sent at set times.

    A schedule is stored in Redis, and any process that runs a worker or ``rsmq scheduler`` sends
    its messages. None of them has to be there always, and none is elected: one script sends the
    messages of a tick and stores the next one, and only if the tick is due by the server's clock
    and it was not fired yet. So each tick is fired exactly once. Its message is an ordinary one,
    which any client receives.
    """

    def __init__(self, client: Any) -> None:
        """Make it for a synchronous client; nothing is read."""
        self._client = client

    @takes_options_of(SCHEDULE, own_first=True)
    def add(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        queue: str,
        body: object = "",
        timezone: str | None = None,
        codec: Codec | None = None,
        missed: str = "once",
        jitter: float | timedelta = 0,
        tick_field: str | None = None,
        version: int | None = None,
        **options: Unpack[ScheduleSendArguments],
    ) -> bool:
        """
        Add a schedule, or replace the one of this name.

        A schedule that is replaced keeps its next tick if its times are the same, and stays paused.
        With ``unique_key``, a tick sends nothing while a message with it is in the queue, in flight
        or not: so messages do not pile up, and their work does not overlap. The schedule then shows
        that message as its last one. It reads the schedule first; the change is one atomic script.

        Args:
            name: 1 to 160 characters of ``A-Z a-z 0-9 _ - .``.
            cron: five fields (minute, hour, day of month, month, day of week), or six with the
                second before them; or ``@hourly``, ``@daily``, ``@weekly``, ``@monthly`` or
                ``@yearly``. It needs the extra ``schedules``, here and where it is fired.
            every: seconds between two ticks, from 0.1, instead of cron. The ticks are the multiples
                since 1970-01-01 UTC: those of 3600 are the full hours.
            queue: the queue that the messages are sent to. It need not exist yet: while it is
                missing, the tick is kept and tried again.
            body: the body of each message, at most 65,536 bytes.
            timezone: the zone of cron, as in ``"Europe/Berlin"``; None is UTC.
            codec: encodes the body; None is the client's.
            missed: what happens to ticks that were not fired before the next one was due, or within
                60 seconds: ``"skip"`` drops them, ``"once"`` sends one message for the latest,
                ``"all"`` sends a message for each, for at most the latest 1,000.
            jitter: seconds from 0 to 86,400: each tick is fired later by a random time up to this.
            tick_field: the field of the body, which must be a JSON object then, that gets the time
                of the tick, as in ``2026-10-25T01:30:00Z``. None leaves the body as it is. In
                Python, ``message.scheduled_at`` has the time in any case.
            version: a whole number from 0 to 2**53, for definitions in code: a worker that declares
                this name with the same or a lower version does not replace this definition. None
                keeps the version that is stored; that of a new schedule is 0.
            options: see below.

        Returns:
            True if it was added or changed; False if it was the same.

        Raises:
            MissingParameter: the name of the schedule or of the queue is empty.
            InvalidFormat: a name, cron, timezone, missed, codec, tick_field or option is invalid;
                or both cron and every are passed, or neither.
            InvalidCombination: an option lacks one that it needs, or excludes another.
            InvalidValue: a number is out of range, the body is too large, or the namespace has
                10,000 schedules already.
            MessageNotString: the codec can't encode the body.
            BodyUnavailable: the store of a ``Stored`` codec does not answer.
            MissingExtra: cron without the extra ``schedules``.
            NotPossible: it was stored by a newer version of this library; remove it first.
        """
        client = self._client
        arguments: ScheduleArguments = {
            "cron": cron, "every": every, "queue": queue, "body": body, "timezone": timezone,
            "codec": codec, "missed": missed, "jitter": jitter, "tick_field": tick_field,
            "version": version, **options,
        }  # fmt: skip
        definition = encode_with(
            codec or client.codec,
            lambda: make_definition(
                client.namespace,
                name,
                arguments,
                codec=client.codec,
                realtime=client.realtime,
                source="call",
            ),
        )
        steps = store_definition(client.namespace, definition, keeps_version=version is None)
        return bool(client.run_steps(steps))

    def declare(self, definition: ScheduleDefinition) -> bool:
        """
        Store a definition of code, as a worker does at its start.

        Args:
            definition: a definition with the source ``code``.

        Returns:
            True if it was added or changed; False if it was the same, or if it leaves another one:
            with a later version, of a newer version of this library, or a change at run time with
            the same or a later version.

        Raises:
            InvalidValue: the namespace has 10,000 schedules already.
        """
        steps = store_definition(self._client.namespace, definition, keeps_version=False)
        return bool(self._client.run_steps(steps))

    def list(self) -> list[StoredSchedule]:
        """Return all schedules, by name."""
        _, records = self._client.run(read_schedules(self._client.namespace))
        return [each.to_schedule() for each in sorted(records, key=lambda each: each.name)]

    def get(self, name: str) -> StoredSchedule | None:
        """
        Return a schedule; None if there is none of this name.

        Args:
            name: its name.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
        """
        wanted = [check_schedule_name(name)]
        _, found = self._client.run(read_schedules(self._client.namespace, wanted))
        return found[0].to_schedule() if found else None

    def remove(self, name: str) -> bool:
        """
        Remove a schedule. Messages that it has sent stay.

        A worker that declares it in code adds it again at its next start.

        Args:
            name: its name.

        Returns:
            True if it was removed; False if there was none.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
        """
        return bool(self._client.run(remove_schedule(self._client.namespace, name)))

    def pause(self, name: str) -> bool:
        """
        Pause a schedule until ``resume``. Its ticks are not fired, and not made up for later.

        It stays paused if its definition is replaced, in code too.

        Args:
            name: its name.

        Returns:
            True if it was paused; False if it was paused already.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            NotPossible: there is no such schedule.
        """
        result = self._client.run(pause_schedule(self._client.namespace, name))
        if result < 0:
            raise no_schedule(name)
        return bool(result)

    def resume(self, name: str) -> bool:
        """
        Resume a paused schedule. Its next tick is the first one after now.

        Args:
            name: its name.

        Returns:
            True if it was resumed; False if it was not paused.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            NotPossible: there is no such schedule, or its definition can't be read.
            MissingExtra: it has cron, without the extra ``schedules``.
        """
        return bool(self._client.run_steps(resume_schedule(self._client.namespace, name)))

    def run_now(self, name: str) -> str:
        """
        Send the message of a schedule once, now, also if it is paused. Its ticks stay as they are.

        It reads the schedule, and sends. After an ambiguous failure the send is not retried.

        Args:
            name: its name.

        Returns:
            The id of the message. Its ``scheduled_at`` is None. If a message with the schedule's
            unique_key is in the queue, nothing is sent, and it is the id of that one.

        Raises:
            MissingParameter, InvalidFormat: the name is invalid.
            NotPossible: there is no such schedule, or its definition can't be read.
            QueueNotFound: its queue does not exist.
            MessageTooLong: its body is larger than the queue's maxsize.
            InvalidValue: its expires is not more than the delay of the queue.
        """
        id: str = self._client.run_steps(run_schedule(self._client.namespace, name))
        return id
