# Generated from rsmq/cells/cells.py by scripts/generate-sync. Do not edit.
"""
The synchronous client of a set of cells, ``Cells``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from rsmq._sync.cell_client import CellClient
from rsmq._sync.client import RSMQ
from rsmq._sync.connect import callers_from_clients, callers_from_urls
from rsmq._sync.consuming import Consumer, Processing
from rsmq._sync.engine import CellEngine
from rsmq.cells.messages import (
    CellMessage,
    add_cell,
    add_cell_to_stored,
    group_dead_letters,
    group_ids,
    group_messages,
    remove_cell,
)
from rsmq.cells.routing import choose_cell
from rsmq.cells.time_limits import time_limit
from rsmq.cells.totals import add_attributes, add_counts
from rsmq.codecs import TEXT, Codec
from rsmq.errors import InvalidFormat, NotReplicated, PartlyDone, QueueExists, QueueNotFound, show
from rsmq.misuse import OnlyWith, explain_arguments
from rsmq.model import Message
from rsmq.operations.arguments import check_batch
from rsmq.operations.batches import (
    LeasedMessages,
    pop_messages,
    receive_leased,
    receive_messages,
)
from rsmq.operations.messages import delete_processed
from rsmq.operations.old_confirmation import choose_confirm, take_old
from rsmq.operations.replies import ReceivedMessages
from rsmq.transport.retry import check_deadline
from rsmq.wire.cells import check_set, join_id, join_ids, name_of_cell, split_id
from rsmq.wire.keys import DEFAULT_NS
from rsmq.wire.limits import (
    DEFAULT_DEDUP_WINDOW,
    DEFAULT_DELAY,
    DEFAULT_KEEP,
    DEFAULT_MAXSIZE,
    DEFAULT_VT,
    MAX_BATCH,
    Seconds,
    check_wait,
    check_whole_number,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from types import TracebackType

    from redis import Redis
    from redis.cluster import RedisCluster

    from rsmq._sync.jobs import JobHandle
    from rsmq._sync.schedules import Schedules
    from rsmq._sync.trash import Trash
    from rsmq.history.records import History
    from rsmq.jobs.status import JobState, JobStatus
    from rsmq.model import Expired, MessageCounts, QueueAttributes, State, StoredMessage
    from rsmq.operations.confirmation import Confirm
    from rsmq.operations.old_confirmation import OldConfirmation
    from rsmq.transport.threads.caller import Caller

T = TypeVar("T")


class Cells(OnlyWith):
    """
    A client for queues that are spread over many slots of a cluster, or many servers.

    A set of cells is one logical namespace. Each cell is an ordinary namespace in one slot, such
    as ``{rsmq.0.b0a}``, and each queue exists in every cell. The number of cells is fixed when the
    set is created. Its capacity grows when cells move to more nodes. Any client of RSMQ can work
    with a single cell.

    The methods are those of ``RSMQ``, and so are arguments, results and errors that are not
    described here. The differences:

    - A call that changes messages of one cell is one atomic script there, as with ``RSMQ``.
      A call that concerns several cells runs in each of them, one after another. If it can't run
      in some of them, it raises PartlyDone after it has run in the others.
    - Order, priorities, dead letters and ``front`` are exact within a cell, and approximate across
      cells. Messages with the same ``key`` are in one cell.
    - The id of a message begins with the number of its cell: ``7-hod98j94h7...``. An id without
      that number is looked for in all cells.
    - A send without a key goes to the cells in turn. If a cell can't be reached, it goes to the
      next one, unless the message may have been stored.
    - A dedup_id and a unique_key are compared with those of their cell only. Without a key they
      choose the cell: the unique_key if there are both.
    - A receive looks only at cells that have messages, as their servers report. Without ``wait``
      and without a report it looks at all cells before it returns nothing.

    Each cell stores the id of its set, its number and the number of cells. This is checked before
    the first call in a cell.
    """

    @explain_arguments
    def __init__(
        self,
        client: Redis | RedisCluster | Sequence[Redis | RedisCluster],
        *,
        cells: int,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
        **old: Unpack[OldConfirmation],
    ) -> None:
        """
        Connect as existing clients of redis-py do; see ``RSMQ``. They are never closed.

        Args:
            client: the client for all cells, or a list with one client for each cell.
            cells: the number of cells, 1 to 1,000. It can't be changed later.
            ns: the name of the set. It has no braces: each cell adds a hash tag.
            codec: as for ``RSMQ``.
            realtime: as for ``RSMQ``; the notification has the number of messages of the
                cell.
            strict_names: as for ``RSMQ``.
            retry_deadline: as for ``RSMQ``.
            confirm: as for ``RSMQ``.

        Raises:
            InvalidFormat: an argument is not of a supported kind, ns has braces, or the number of
                clients is neither 1 nor that of the cells.
            InvalidValue: a number is out of range.
        """
        copies = choose_confirm(confirm, old, None)
        self._use_settings(cells, ns, codec, realtime, strict_names, copies)
        deadline = check_deadline(retry_deadline)
        self._open(callers_from_clients(client, self._names, deadline))

    @classmethod
    def from_url(
        cls,
        url: str | Sequence[str],
        *,
        cells: int,
        ns: str = DEFAULT_NS,
        codec: Codec = TEXT,
        realtime: bool = False,
        strict_names: bool = True,
        retry_deadline: float | timedelta | None = None,
        confirm: Confirm | None = None,
        **options: Any,
    ) -> Self:
        """
        Open connections that close() closes.

        Args:
            url: the URL of the server or servers of all cells, as for ``RSMQ.from_url``; or a
                list with one URL for each cell, in the order of the cells. Cells with the same URL
                share connections.
            cells: as for the constructor.
            ns: as for the constructor.
            codec: as for the constructor.
            realtime: as for the constructor.
            strict_names: as for the constructor.
            retry_deadline: as for the constructor.
            confirm: as for the constructor.
            options: as for ``RSMQ.from_url``, for all URLs.

        Raises:
            InvalidFormat: as for the constructor, or a URL or an option is not supported.
            InvalidValue: a number is out of range.
            MissingExtra: ``memory://`` without the extra ``embedded``.
        """
        self = cls.__new__(cls)
        copies = choose_confirm(confirm, take_old(options), None)
        self._use_settings(cells, ns, codec, realtime, strict_names, copies)
        deadline = check_deadline(retry_deadline)
        self._open(callers_from_urls(url, self._names, deadline, options))
        return self

    def _use_settings(  # noqa: PLR0917 - the parameters of the constructor
        self,
        cells: int,
        ns: str,
        codec: Codec,
        realtime: bool,  # noqa: FBT001
        strict_names: bool,  # noqa: FBT001
        confirm: Confirm,
    ) -> None:
        self._ns, self._number = check_set(ns, cells)
        self._names = [name_of_cell(self._ns, index) for index in range(self._number)]
        self._settings: dict[str, Any] = {
            "codec": codec,
            "realtime": realtime,
            "strict_names": strict_names,
            "confirm": confirm,
        }

    def _open(self, callers: Sequence[Caller]) -> None:
        self._engine = CellEngine(callers, self._names, self._settings)

    def _confirm_for(self, confirm: Confirm | None, old: OldConfirmation) -> Confirm | None:
        """Return the copies that a call waits for; None for those of this client."""
        if confirm is None and not old:
            return None
        return choose_confirm(confirm, old, self._settings["confirm"])

    @property
    def engine(self) -> CellEngine:
        """The cells and the rules of calls to them, for extensions such as the worker."""
        return self._engine

    @property
    def cells(self) -> tuple[CellClient, ...]:
        """
        The client of each cell, for calls that concern one cell alone.

        Their ids and messages are without the number of the cell. They are closed with this
        client. An ``RSMQ`` has ``cells`` too: itself, as the only one.
        """
        return tuple(self._engine.clients)

    @property
    def schedules(self) -> Schedules:
        """
        The schedules of the set: messages that are sent at set times.

        It has ``add``, ``list``, ``get``, ``remove``, ``pause``, ``resume`` and ``run_now``.
        """
        from rsmq._sync.schedules import Schedules  # noqa: PLC0415 - few programs use it

        return Schedules(self._engine, realtime=self._settings["realtime"])

    @property
    def trash(self) -> Trash:
        """
        Deletions that can be undone for ten minutes.

        It has ``purge_queue``, ``delete_queue``, ``delete_messages``, ``list``, ``undo``,
        ``why_off`` and ``empty``.
        """
        from rsmq._sync.trash import Trash  # noqa: PLC0415 - few programs use it

        return Trash(self._engine)

    def job(self, qname: str, id: str) -> JobHandle[Any]:
        """
        Return a handle on a tracked message: its status, its result, and its cancellation.

        Nothing is read. The handle has ``status``, which says what has become of the message,
        ``result``, which waits until it has ended and returns what its handler returned, and
        ``cancel``.

        Args:
            qname: the queue's name.
            id: the id that the send has returned, in Python or in another language.

        Raises:
            MissingParameter: the name or the id is None or empty.
            InvalidFormat: the name or the id has other characters.
        """
        from rsmq._sync.jobs import JobHandle  # noqa: PLC0415 - few programs use it

        return JobHandle(self._engine, qname, id)

    def jobs(
        self,
        qname: str,
        *,
        state: JobState | str | None = None,
        max_jobs: int = 1000,
    ) -> list[JobStatus[Any]]:
        """
        Return what has become of the tracked messages of a queue that have a record.

        Nothing is changed. There is no index of records, so this looks at all keys of the database
        (of each cell of a set), a thousand in each script: about a second for a million keys. It is
        for operators, not for each request of a program. The whole is not atomic: a job that begins
        or ends meanwhile may be missing.

        Args:
            qname: the queue's name.
            state: a ``JobState`` or its text, such as ``"failed"``; None is any.
            max_jobs: maximum number, 1 to 10,000: those that were sent last.

        Returns:
            The statuses, the job that was sent last first.

        Raises:
            MissingParameter: the name is None or empty.
            InvalidFormat: the name has other characters, or there is no such state.
            InvalidValue: max_jobs is out of range.
        """
        from rsmq._sync.jobs import list_jobs  # noqa: PLC0415 - few programs use it

        return list_jobs(self._engine, qname, state, max_jobs)

    def wait_for_jobs(
        self,
        jobs: Iterable[JobHandle[T]],
        timeout: float | None = None,
    ) -> list[JobStatus[T]]:
        """
        Wait until all of several tracked messages have ended, and return what has become of each.

        It waits for one of them at a time, as the handle's ``result`` does, and reads the others
        then, and before a record can expire: four times within the shortest ``result_ttl`` that it
        has seen in their queue (one second until a worker has ended one), but every 30 seconds at
        least, and for a twentieth of the time at most. If a record has expired unseen in spite of
        it, the state of this job is ``expired``.
        A failed job is no error here: ``status.result()`` returns the result or raises it.

        Args:
            jobs: handles, of any queues.
            timeout: seconds for all of them, from 0; None waits forever.

        Returns:
            The statuses, in the order of the handles.

        Raises:
            JobNotEnded: one of them has not ended within the timeout. It is a TimeoutError too.
            JobNotFound: there was neither a message nor a record of one of them at the call.
            JobNotTracked: one of them is of a task without ``track=True``.
            InvalidValue: timeout is out of range.
        """
        from rsmq._sync.jobs import wait_for_jobs  # noqa: PLC0415 - as above

        return wait_for_jobs(jobs, timeout)

    def create_queue(
        self,
        qname: str,
        *,
        vt: float | timedelta = DEFAULT_VT,
        delay: float | timedelta = DEFAULT_DELAY,
        maxsize: int = DEFAULT_MAXSIZE,
        exist_ok: bool = False,
        keep: float | timedelta = DEFAULT_KEEP,
    ) -> bool:
        """
        Create a queue in each cell. Repeating the call completes one that was interrupted.

        Args:
            qname: the queue's name.
            vt: as for ``RSMQ.create_queue``.
            delay: as for ``RSMQ.create_queue``.
            maxsize: as for ``RSMQ.create_queue``.
            exist_ok: as for ``RSMQ.create_queue``.
            keep: as for ``RSMQ.create_queue``.

        Returns:
            True if it was created in a cell; False if it existed in all cells, with exist_ok.

        Raises:
            QueueExists: it exists in all cells, without exist_ok.
            PartlyDone: some cells can't be reached.
        """
        created = self._engine.on_each(
            lambda client: client.create_queue(
                qname, vt=vt, delay=delay, maxsize=maxsize, exist_ok=exist_ok, keep=keep
            ),
            ignored=(QueueExists,),
        )
        return any(created)

    def delete_queue(self, qname: str) -> None:
        """
        Delete a queue and its messages in each cell. Repeating the call completes it.

        Args:
            qname: the queue's name.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached.
        """
        self._engine.on_each(lambda client: client.delete_queue(qname), ignored=(QueueNotFound,))

    def list_queues(self) -> list[str]:
        """
        Return the names of all queues that exist in any cell, each once.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        found = self._engine.on_each(lambda client: client.list_queues())
        return list(dict.fromkeys(name for names in found for name in names))

    def get_queue_attributes(self, qname: str) -> QueueAttributes:
        """
        Return the attributes of a queue, with the sums of the counters of all cells.

        ``created`` is the earliest of all cells, ``modified`` the latest, and ``next_due_ms`` the
        earliest. ``paused`` is True if one cell is paused. The others are those of cell 0. One
        round trip for each cell; not a snapshot of one moment.

        Args:
            qname: the queue's name.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return add_attributes(
            self._engine.on_each(lambda client: client.get_queue_attributes(qname))
        )

    def set_queue_attributes(
        self,
        qname: str,
        *,
        vt: float | timedelta | None = None,
        delay: float | timedelta | None = None,
        maxsize: int | None = None,
        keep: float | timedelta | None = None,
        expired: Expired | None = None,
    ) -> QueueAttributes:
        """
        Set attributes of a queue in each cell. Repeating the call completes it.

        Args:
            qname: the queue's name.
            vt: as for ``RSMQ.set_queue_attributes``.
            delay: as for ``RSMQ.set_queue_attributes``.
            maxsize: as for ``RSMQ.set_queue_attributes``.
            keep: as for ``RSMQ.set_queue_attributes``.
            expired: as for ``RSMQ.set_queue_attributes``.

        Returns:
            As ``get_queue_attributes``.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return add_attributes(
            self._engine.on_each(
                lambda client: client.set_queue_attributes(
                    qname, vt=vt, delay=delay, maxsize=maxsize, keep=keep, expired=expired
                )
            )
        )

    def set_queue_limits(
        self, qname: str, *, max_running: int | None = None, rate: str | None = None
    ) -> QueueAttributes:
        """
        Set or remove the limits of a queue in each cell. Repeating the call completes it.

        Each cell counts for itself: all cells together allow as many times more as there are cells.

        Args:
            qname: the queue's name.
            max_running: in each cell, as for ``RSMQ.set_queue_limits``.
            rate: in each cell, as for ``RSMQ.set_queue_limits``.

        Returns:
            As ``get_queue_attributes``.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return add_attributes(
            self._engine.on_each(
                lambda client: client.set_queue_limits(qname, max_running=max_running, rate=rate)
            )
        )

    def pause_queue(self, qname: str) -> bool:
        """
        Pause a queue for workers in each cell. Repeating the call completes it.

        Args:
            qname: the queue's name.

        Returns:
            True if it was not paused before in a cell.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return any(self._engine.on_each(lambda client: client.pause_queue(qname)))

    def resume_queue(self, qname: str) -> bool:
        """
        End the pause of a queue in each cell. Repeating the call completes it.

        Args:
            qname: the queue's name.

        Returns:
            True if it was paused in a cell.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return any(self._engine.on_each(lambda client: client.resume_queue(qname)))

    def purge_queue(self, qname: str) -> int:
        """
        Delete all messages of a queue in each cell. Repeating the call completes it.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages deleted.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return sum(self._engine.on_each(lambda client: client.purge_queue(qname)))

    def send_message(
        self,
        qname: str,
        body: Any,
        *,
        key: str | None = None,
        delay: float | timedelta | None = None,
        deliver_at: datetime | None = None,
        front: bool = False,
        dedup_id: str | None = None,
        dedup_window: float | timedelta = DEFAULT_DEDUP_WINDOW,
        unique_key: str | None = None,
        replace: bool = False,
        max_wait: float | timedelta | None = None,
        expires: float | timedelta | None = None,
        max_retries: int | None = None,
        track: bool = False,
        group: str | None = None,
        limit_key: str | None = None,
        max_running: int | None = None,
        rate: str | None = None,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **old: Unpack[OldConfirmation],
    ) -> str:
        """
        Add a message to a queue, in one cell. One round trip.

        Args:
            qname: the queue's name.
            body: as for ``RSMQ.send_message``.
            key: any text that UTF-8 can encode. Messages with the same key go to the same cell,
                where their order is exact. None uses the cell of the unique_key or the dedup_id,
                or else the cells in turn.
            delay: as for ``RSMQ.send_message``.
            deliver_at: as for ``RSMQ.send_message``.
            front: if True, it is received before the other messages of its cell.
            dedup_id: as for ``RSMQ.send_message``, within the cell. So with keys of different
                cells, the same dedup_id counts as another one.
            dedup_window: as for ``RSMQ.send_message``.
            unique_key: as for ``RSMQ.send_message``, within the cell. Without a key it is
                unique in the queue of all cells, as long as all senders leave out the key.
            replace: as for ``RSMQ.send_message``.
            max_wait: as for ``RSMQ.send_message``.
            expires: as for ``RSMQ.send_message``.
            max_retries: as for ``RSMQ.send_message``.
            track: as for ``RSMQ.send_message``.
            group: as for ``RSMQ.send_message``, within the cell. Without a key it chooses the
                cell, so the group is in one cell, as long as all senders leave out the key.
            limit_key: as for ``RSMQ.send_message``, within the cell. It chooses the cell as a
                group does.
            max_running: as for ``RSMQ.send_message``.
            rate: as for ``RSMQ.send_message``.
            codec: as for ``RSMQ.send_message``.
            confirm: as for ``RSMQ.send_message``.
            timeout: as for ``RSMQ.send_message``.

        Returns:
            The message's id, with the number of its cell.

        Raises:
            InvalidFormat: key is not such a text; or as ``RSMQ.send_message``, which has the
                other errors too.
        """
        copies = self._confirm_for(confirm, old)
        cell, id = self._send(
            choose_cell(
                self._number,
                key,
                dedup_ids=(dedup_id,),
                unique_keys=(unique_key,),
                groups=(group,),
                limit_keys=(limit_key,),
            ),
            lambda client: client.send_message(
                qname,
                body,
                delay=delay,
                deliver_at=deliver_at,
                front=front,
                dedup_id=dedup_id,
                dedup_window=dedup_window,
                unique_key=unique_key,
                replace=replace,
                max_wait=max_wait,
                expires=expires,
                max_retries=max_retries,
                track=track,
                group=group,
                limit_key=limit_key,
                max_running=max_running,
                rate=rate,
                codec=codec,
                confirm=copies,
            ),
            timeout,
        )
        return join_id(cell, id)

    def send_messages(
        self,
        qname: str,
        bodies: Iterable[Any],
        *,
        key: str | None = None,
        delay: float | timedelta | None = None,
        deliver_at: datetime | None = None,
        front: bool = False,
        dedup_ids: Iterable[str | None] | None = None,
        dedup_window: float | timedelta = DEFAULT_DEDUP_WINDOW,
        unique_keys: Iterable[str | None] | None = None,
        replace: bool = False,
        max_wait: float | timedelta | None = None,
        expires: float | timedelta | None = None,
        max_retries: int | None = None,
        track: bool = False,
        groups: Iterable[str | None] | None = None,
        limit_keys: Iterable[str | None] | None = None,
        max_running: int | None = None,
        rate: str | None = None,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **old: Unpack[OldConfirmation],
    ) -> list[str]:
        """
        Add messages to a queue in this order, all or none. They all go to one cell.

        Args:
            qname: the queue's name.
            bodies: as for ``RSMQ.send_messages``.
            key: as for ``send_message``.
            delay: as for ``RSMQ.send_messages``.
            deliver_at: as for ``RSMQ.send_messages``.
            front: as for ``send_message``.
            dedup_ids: as for ``RSMQ.send_messages``, within the cell. Without a key they must
                all belong to one cell.
            dedup_window: as for ``RSMQ.send_messages``.
            unique_keys: as for ``RSMQ.send_messages``, within the cell. Without a key they
                must all belong to one cell.
            replace: as for ``RSMQ.send_messages``.
            max_wait: as for ``RSMQ.send_messages``.
            expires: as for ``RSMQ.send_messages``.
            max_retries: as for ``RSMQ.send_messages``.
            track: as for ``RSMQ.send_messages``.
            groups: as for ``RSMQ.send_messages``, within the cell. Without a key they must all
                belong to one cell.
            limit_keys: as groups.
            max_running: as for ``RSMQ.send_messages``.
            rate: as for ``RSMQ.send_messages``.
            codec: as for ``RSMQ.send_messages``.
            confirm: as for ``RSMQ.send_messages``.
            timeout: as for ``RSMQ.send_messages``.

        Returns:
            The ids, with the number of their cell, in the order of the bodies.

        Raises:
            InvalidFormat: key is not a str; the groups, limit_keys, unique_keys or dedup_ids belong
                to several cells; or as ``RSMQ.send_messages``, which has the other errors too.
        """
        copies = self._confirm_for(confirm, old)
        bodies = check_batch("bodies", bodies)
        dedup_ids = None if dedup_ids is None else check_batch("dedup_ids", dedup_ids)
        unique_keys = None if unique_keys is None else check_batch("unique_keys", unique_keys)
        groups = None if groups is None else check_batch("groups", groups)
        limit_keys = None if limit_keys is None else check_batch("limit_keys", limit_keys)
        cell, ids = self._send(
            choose_cell(
                self._number,
                key,
                dedup_ids=dedup_ids,
                unique_keys=unique_keys,
                groups=groups,
                limit_keys=limit_keys,
            ),
            lambda client: client.send_messages(
                qname,
                bodies,
                delay=delay,
                deliver_at=deliver_at,
                front=front,
                dedup_ids=dedup_ids,
                dedup_window=dedup_window,
                unique_keys=unique_keys,
                replace=replace,
                max_wait=max_wait,
                expires=expires,
                max_retries=max_retries,
                track=track,
                groups=groups,
                limit_keys=limit_keys,
                max_running=max_running,
                rate=rate,
                codec=codec,
                confirm=copies,
            ),
            timeout,
        )
        return join_ids(cell, ids)

    def publish(
        self,
        qnames: Iterable[str],
        body: Any,
        *,
        key: str | None = None,
        delay: float | timedelta | None = None,
        deliver_at: datetime | None = None,
        expires: float | timedelta | None = None,
        max_retries: int | None = None,
        codec: Codec | None = None,
        confirm: Confirm | None = None,
        timeout: float | timedelta | None = None,
        **old: Unpack[OldConfirmation],
    ) -> dict[str, str]:
        """
        Add a message to each of several queues, in one cell: to all of them, or to none.

        Args:
            qnames: the names of the queues; a name that is repeated counts once.
            body: as for ``RSMQ.publish``.
            key: as for ``send_message``.
            delay: as for ``RSMQ.publish``.
            deliver_at: as for ``RSMQ.publish``.
            expires: as for ``RSMQ.publish``.
            max_retries: as for ``RSMQ.publish``.
            codec: as for ``RSMQ.publish``.
            confirm: as for ``RSMQ.publish``.
            timeout: as for ``RSMQ.publish``.

        Returns:
            The message's id in each queue, with the number of its cell, by the queue's name.

        Raises:
            InvalidFormat: key is not a str; or as ``RSMQ.publish``, which has the other
                errors too.
        """
        copies = self._confirm_for(confirm, old)
        qnames = self._engine.queues(qnames).names
        cell, ids = self._send(
            choose_cell(self._number, key),
            lambda client: client.publish(
                qnames,
                body,
                delay=delay,
                deliver_at=deliver_at,
                expires=expires,
                max_retries=max_retries,
                codec=codec,
                confirm=copies,
            ),
            timeout,
        )
        return {name: join_id(cell, id) for name, id in ids.items()}

    def _send(
        self,
        cell: int | None,
        send: Callable[[CellClient], T],
        timeout: Seconds | None,
    ) -> tuple[int, T]:
        """Send to a cell, or to the one whose turn it is; return the cell and the result."""
        sender: CellClient | None = None

        def send_and_note(client: CellClient) -> T:
            nonlocal sender
            sender = client
            return send(client)

        try:
            with time_limit(timeout):
                if cell is None:
                    return self._engine.in_any(send_and_note)
                return cell, send(self._engine.client(cell))
        except NotReplicated as error:
            sent_to = cell if sender is None else self._names.index(sender.namespace.name)
            error.result = _add_cell_to_result(sent_to, error.result)
            raise

    def receive_message(
        self,
        qname: str,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> CellMessage[Any] | None:
        """
        Receive a message, and hide it from consumers.

        Within a cell it is the message that has been visible the longest. Cells that have messages
        take turns. A waiting call costs no command while no cell has a message: it has one
        connection to each server, which all waiting calls of this client share.

        Args:
            qname: the queue's name.
            vt: as for ``RSMQ.receive_message``.
            wait: as for ``RSMQ.receive_message``.
            codec: as for ``RSMQ.receive_message``.

        Returns:
            The message, or None if no message became visible in time.

        Raises:
            PartlyDone: no cell that can be reached had a message in time, and some can't be
                reached.
            QueueNotFound: a cell does not have the queue.
        """
        found = self.receive_messages(qname, 1, vt=vt, wait=wait, codec=codec)
        return found[0] if found else None

    def receive_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        vt: float | timedelta | None = None,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> list[CellMessage[Any]]:
        """
        Receive visible messages from one queue or several, and hide them from consumers.

        Cells that have messages take turns until there are max_messages. Queues have priority in
        the order of qnames, exactly within a cell.

        Args:
            qnames: a queue's name, or several.
            max_messages: the maximum number of messages, 1 to 10,000.
            vt: as for ``RSMQ.receive_messages``.
            wait: as for ``RSMQ.receive_messages``.
            codec: as for ``RSMQ.receive_messages``.

        Returns:
            The messages, cell by cell; an empty list if none became visible in time.

        Raises:
            PartlyDone: as of ``receive_message``.
            QueueNotFound: a cell does not have one of the queues.
        """
        check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
        queues = self._engine.queues(qnames)
        return self._engine.receive(
            lambda client, number: client.receive(
                receive_messages(
                    client.namespace,
                    queues.argument,
                    number,
                    vt=vt,
                    codec=client.codec_for(codec),
                    losses=client.losses,
                    message_class=client.message_class,
                )
            ),
            queues,
            max_messages,
            wait,
        )

    def consume(
        self,
        qnames: str | Iterable[str],
        *,
        wait: float | timedelta | None = None,
        batch: int = 1,
        vt: float | timedelta | None = None,
        codec: Codec | None = None,
    ) -> Consumer[Any]:
        """
        Return a context manager that receives messages when they are asked for.

        As ``RSMQ.consume``. A batch may have messages of several cells.

        Args:
            qnames: a queue's name, or several.
            wait: as for ``RSMQ.consume``.
            batch: as for ``RSMQ.consume``.
            vt: as for ``RSMQ.consume``.
            codec: as for ``RSMQ.consume``.

        Raises:
            MissingParameter, InvalidFormat, InvalidValue: as ``RSMQ.consume``.
        """
        queues = self._engine.queues(qnames)
        first = self._engine.clients[0]
        # Only checks the arguments.
        receive_leased(
            first.namespace,
            queues.names,
            batch,
            vt=vt,
            codec=first.codec_for(codec),
            losses=first.losses,
        )
        seconds = check_wait(wait)

        def receive() -> LeasedMessages:
            lease_ends: dict[str, float] = {}

            def receive_from_cell(client: CellClient, number: int) -> LeasedMessages:
                leased = receive_leased(
                    client.namespace,
                    queues.names,
                    number,
                    vt=vt,
                    codec=client.codec_for(codec),
                    losses=client.losses,
                    message_class=client.message_class,
                )
                found: LeasedMessages = client.receive(leased)
                for name in {message.queue for message in found}:
                    end = found.lease_ends[name]
                    lease_ends[name] = min(end, lease_ends.get(name, end))
                return found

            found = self._engine.receive(receive_from_cell, queues, batch, seconds)
            return LeasedMessages(list(found), lease_ends)

        return Consumer(receive, self.release_messages)

    def processing(self, message: CellMessage[Any]) -> Processing[Any]:
        """
        Return a context manager that deletes a received message after its processing.

        As ``RSMQ.processing``.

        Args:
            message: a message that was received from these cells.

        Raises:
            InvalidFormat: message was not received from cells.
        """
        cell, stored = remove_cell(message, self._number)
        client = self._engine.clients[cell]
        delete = delete_processed(client.namespace, stored)
        return Processing(message, lambda: client.run(delete), self.release_messages)

    def pop_message(
        self,
        qname: str,
        *,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> CellMessage[Any] | None:
        """
        Receive a message and delete it, in one step.

        Args:
            qname: the queue's name.
            wait: as for ``RSMQ.pop_message``.
            codec: as for ``RSMQ.pop_message``.

        Returns:
            The message; None if no cell had one in time.

        Raises:
            PartlyDone: as of ``receive_message``.
            QueueNotFound: a cell does not have the queue.
        """
        found = self.pop_messages(qname, 1, wait=wait, codec=codec)
        return found[0] if found else None

    def pop_messages(
        self,
        qnames: str | Iterable[str],
        max_messages: int,
        *,
        wait: float | timedelta | None = 0,
        codec: Codec | None = None,
    ) -> list[CellMessage[Any]]:
        """
        Receive messages of one cell and delete them, in one step.

        Args:
            qnames: a queue's name, or several.
            max_messages: the maximum number of messages, 1 to 10,000.
            wait: as for ``RSMQ.pop_messages``.
            codec: as for ``RSMQ.pop_messages``.

        Returns:
            The messages, all of one cell; an empty list if no cell had one in time.

        Raises:
            PartlyDone: as of ``receive_message``.
            QueueNotFound: a cell does not have one of the queues.
        """
        check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
        queues = self._engine.queues(qnames)
        return self._engine.receive(
            lambda client, number: client.receive(
                pop_messages(
                    client.namespace,
                    queues.argument,
                    number,
                    codec=client.codec_for(codec),
                    losses=client.losses,
                    message_class=client.message_class,
                )
            ),
            queues,
            max_messages,
            wait,
            one_cell=True,
        )

    def delete_message(self, message: Message | str, /, id: str | None = None) -> bool:
        """
        Delete a message.

        Args:
            message: a message that was received from these cells; or the name of its queue.
            id: with a queue's name: its id. Without the number of its cell, each cell is asked.

        Returns:
            As ``RSMQ.delete_message``.

        Raises:
            PartlyDone: the cell of a bare id was not found, and some cells can't be reached.
        """
        if isinstance(message, str) and id is not None:
            return self._change_one(lambda: self.delete_messages(message, [id]))
        _refuse_id(message, id)
        cell, stored = remove_cell(message, self._number)
        return (self._engine.client(cell)).delete_message(stored)

    def change_message_visibility(
        self, message: Message | str, /, id: Any = None, vt: float | timedelta | None = None
    ) -> bool:
        """
        Hide a message for a time from now, to extend its lease, or show it with 0.

        Args:
            message: a message that was received from these cells; or the name of its queue.
            id: after a name, its id. Without the number of its cell, each cell is asked. After a
                message there is no id, and the second positional argument is vt.
            vt: as for ``RSMQ.change_message_visibility``.

        Returns:
            As ``RSMQ.change_message_visibility``.

        Raises:
            PartlyDone: the cell of a bare id was not found, and some cells can't be reached.
        """
        if isinstance(message, str):
            return self._change_one(lambda: self.change_messages_visibility(message, [id], vt))
        if vt is None:
            id, vt = None, id
        _refuse_id(message, id)
        cell, stored = remove_cell(message, self._number)
        return (self._engine.client(cell)).change_message_visibility(stored, vt=vt)

    def delete_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Delete messages. One atomic step for each of their cells.

        Args:
            messages: messages that were received from these cells; or the name of their queue.
            ids: with a queue's name: their ids. Without the number of its cell, an id is looked
                for in all cells.

        Returns:
            The ids that were deleted, with the numbers of their cells.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        return self._change(
            messages, ids, lambda client, *of_cell: client.delete_messages(*of_cell)
        )

    def change_messages_visibility(
        self,
        messages: Iterable[Message] | str,
        /,
        ids: Any = None,
        vt: float | timedelta | None = None,
    ) -> list[str]:
        """
        Hide messages for a time from now, or show them. One atomic step for each of their cells.

        Args:
            messages: messages that were received from these cells; or the name of their queue.
            ids: after a name, their ids, as for ``delete_messages``. After messages there are no
                ids, and the second positional argument is vt.
            vt: as for ``RSMQ.change_messages_visibility``.

        Returns:
            The ids that were changed, with the numbers of their cells.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        if not isinstance(messages, str) and vt is None:
            ids, vt = None, ids
        return self._change(
            messages,
            ids,
            lambda client, *of_cell: client.change_messages_visibility(*of_cell, vt=vt),
        )

    def release_messages(
        self, messages: Iterable[Message] | str, /, ids: Iterable[str] | None = None
    ) -> list[str]:
        """
        Make messages visible at once. One atomic step for each of their cells.

        Args:
            messages: messages that were received from these cells; or the name of their queue.
            ids: with a queue's name: their ids, as for ``delete_messages``.

        Returns:
            The ids that were released, with the numbers of their cells.

        Raises:
            PartlyDone: some cells can't be reached.
        """
        return self._change(
            messages, ids, lambda client, *of_cell: client.release_messages(*of_cell)
        )

    def move_messages(
        self,
        messages: Iterable[Message] | str,
        /,
        destination: str,
        ids: Iterable[str] | None = None,
        *,
        confirm: Confirm | None = None,
        **old: Unpack[OldConfirmation],
    ) -> list[str]:
        """
        Move messages to another queue of their cell. One atomic step for each of their cells.

        Args:
            messages: messages that were received from these cells; or the name of their queue.
            destination: as for ``RSMQ.move_messages``.
            ids: with a queue's name: their ids, as for ``delete_messages``.
            confirm: as for ``RSMQ.move_messages``.

        Returns:
            The ids that were moved, with the numbers of their cells.

        Raises:
            PartlyDone: some cells can't be reached.
            NotReplicated: the messages are moved, and some cells have not confirmed it in time.
        """
        copies = self._confirm_for(confirm, old)
        return self._change(
            messages,
            ids,
            lambda client, of_cell, *of_ids: client.move_messages(
                of_cell, destination, *of_ids, confirm=copies
            ),
        )

    def _change_one(self, change: Callable[[], list[str]]) -> bool:
        """Change a message by its id, and return whether a cell had it."""
        try:
            return bool(change())
        except PartlyDone as error:
            if error.result:  # the cells that can't be reached don't have it
                return True
            raise

    def _change(
        self,
        messages: Iterable[Message] | str,
        ids: Iterable[str] | None,
        change: Callable[..., list[str]],
    ) -> list[str]:
        """
        Change messages in their cells, and return the ids of those that were changed.

        Args:
            messages: received messages, or the name of a queue.
            ids: with the name of a queue: ids.
            change: changes messages in one cell: called with its client and messages, or with its
                client, the name of the queue and ids.
        """
        if not isinstance(messages, str):
            if ids is not None:
                raise InvalidFormat(
                    "ids", value=show(ids), hint="Pass messages, or a queue's name and ids."
                )
            groups = group_messages(messages, self._number)
            return self._engine.in_cells(groups, change)
        of_cells, bare = group_ids(ids, self._number)
        if bare:
            of_cells = {cell: of_cells.get(cell, []) + bare for cell in range(self._number)}
        return self._engine.in_cells(
            of_cells, lambda client, of_cell: change(client, messages, of_cell)
        )

    def release_all_messages(self, qname: str) -> int:
        """
        Release every message in flight, in each cell. For operators.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages released.

        Raises:
            QueueNotFound: it exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return sum(self._engine.on_each(lambda client: client.release_all_messages(qname)))

    def recover_messages(
        self,
        qname: str,
        max_messages: int,
        *,
        idle: float | timedelta,
        vt: float | timedelta | None = None,
        codec: Codec | None = None,
    ) -> list[CellMessage[Any]]:
        """
        Receive messages again that were received ``idle`` seconds ago or earlier and not deleted.

        All cells are asked in turn until there are max_messages.

        Args:
            qname: the queue's name.
            max_messages: as for ``RSMQ.recover_messages``.
            idle: as for ``RSMQ.recover_messages``.
            vt: as for ``RSMQ.recover_messages``.
            codec: as for ``RSMQ.recover_messages``.

        Returns:
            The messages, cell by cell.

        Raises:
            PartlyDone: no cell that can be reached has such a message, and some can't be reached.
            QueueNotFound: a cell does not have the queue.
        """
        check_whole_number("max_messages", max_messages, 1, MAX_BATCH)

        def recover(client: CellClient, number: int) -> ReceivedMessages:
            found = client.recover_messages(qname, number, idle=idle, vt=vt, codec=codec)
            of_cell = [add_cell(client.message_class.cell, message) for message in found]
            # It has not looked for visible messages.
            return ReceivedMessages(of_cell, has_more=True)

        return self._engine.receive_from_all(recover, self._engine.queues(qname), max_messages)

    def get_message(
        self, qname: str, id: str, *, codec: Codec | None = None
    ) -> StoredMessage | None:
        """
        Return a message without receiving it. Nothing is changed.

        Args:
            qname: the queue's name.
            id: its id. Without the number of its cell, it is looked for in all cells.
            codec: as for ``RSMQ.get_message``.

        Returns:
            As ``RSMQ.get_message``.

        Raises:
            QueueNotFound: the queue does not exist.
            PartlyDone: a bare id was not found, and some cells can't be reached.
        """
        cell, stored_id = split_id(id, self._number)
        if cell is not None:
            client = self._engine.client(cell)
            found = client.get_message(qname, stored_id, codec=codec)
            return None if found is None else add_cell_to_stored(cell, found)
        failure: PartlyDone | None = None
        try:
            of_cells = self._engine.by_cell(
                lambda client: client.get_message(qname, stored_id, codec=codec)
            )
        except PartlyDone as error:
            failure = error
            reached = [index for index in range(self._number) if index not in error.cells]
            of_cells = dict(zip(reached, error.result, strict=True))
        for index, message in of_cells.items():
            if message is not None:
                return add_cell_to_stored(index, message)
        if failure is not None:
            raise failure
        return None

    def peek_messages(
        self,
        qname: str,
        start: int = 0,
        count: int = 10,
        *,
        state: State | None = None,
        codec: Codec | None = None,
    ) -> list[StoredMessage]:
        """
        Return messages by their position in the queue, without receiving them.

        The order is that in which messages of all cells become visible. Each cell is read as far
        as ``start`` and ``count`` reach.

        Args:
            qname: the queue's name.
            start: as for ``RSMQ.peek_messages``, from 0 on: there are no negative positions.
            count: as for ``RSMQ.peek_messages``; start + count is at most 10,000.
            state: as for ``RSMQ.peek_messages``.
            codec: as for ``RSMQ.peek_messages``.

        Returns:
            The messages.

        Raises:
            InvalidValue: a number is out of range.
            QueueNotFound: the queue does not exist.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        check_whole_number("start", start, 0, MAX_BATCH)
        check_whole_number("count", count, 1, MAX_BATCH)
        last = check_whole_number("start + count", start + count, 1, MAX_BATCH)
        of_cells = self._engine.by_cell(
            lambda client: client.peek_messages(qname, 0, last, state=state, codec=codec)
        )
        found = [
            (message.visible_at_ms, message.id, cell, message)
            for cell, messages in of_cells.items()
            for message in messages
        ]
        found.sort(key=lambda each: each[:3])
        return [add_cell_to_stored(cell, message) for _, _, cell, message in found[start:last]]

    def count_messages(self, qname: str) -> MessageCounts:
        """
        Return the number of messages of a queue by state, in all cells.

        Args:
            qname: the queue's name.

        Raises:
            QueueNotFound: the queue does not exist.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return add_counts(self._engine.on_each(lambda client: client.count_messages(qname)))

    def history(
        self,
        qname: str | None = None,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        step: int = 60,
    ) -> History:
        """
        Read the history of a queue, or of all queues: the sums of the cells.

        Each cell is recorded on its own. A step has no value if a cell lacks it, apart from cells
        that were never recorded in this time; the totals have what the others have recorded.

        Args:
            qname: the queue's name; None reads the sums of all queues.
            start: as for ``RSMQ.history``.
            end: as for ``RSMQ.history``, but None is the time of this machine.
            step: as for ``RSMQ.history``.

        Raises:
            InvalidFormat, InvalidValue: as for ``RSMQ.history``.
            QueueNotFound: the queue exists in no cell.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        from rsmq.history.operations import end_or_now, read_history  # noqa: PLC0415 - few programs use it
        from rsmq.history.records import add_histories  # noqa: PLC0415 - as above

        last = end_or_now(end)  # the same for all cells
        by_cell = self._engine.by_cell(
            lambda client: client.run(read_history(client.namespace, qname, start, last, step))
        )
        return add_histories(list(by_cell.values()))

    def set_dead_letter_policy(
        self, qname: str, dead_letter_queue: str | None, max_receives: int | None = None
    ) -> QueueAttributes:
        """
        Set or remove the dead-letter policy of a queue in each cell. Repeating the call completes
        it. A dead letter stays in its cell.

        Args:
            qname: the queue's name.
            dead_letter_queue: as for ``RSMQ.set_dead_letter_policy``.
            max_receives: as for ``RSMQ.set_dead_letter_policy``.

        Returns:
            As ``get_queue_attributes``.

        Raises:
            QueueNotFound: one of the queues exists in no cell.
            PartlyDone: some cells can't be reached, or don't have one of the queues.
        """
        return add_attributes(
            self._engine.on_each(
                lambda client: client.set_dead_letter_policy(qname, dead_letter_queue, max_receives)
            )
        )

    def sweep_dead_letters(self, qname: str, max_messages: int = 1000) -> list[str]:
        """
        Move visible messages that were received as often as the queue's policy allows.

        Args:
            qname: the queue's name.
            max_messages: the maximum number of messages in all cells, 1 to 10,000.

        Returns:
            The ids of the messages that were moved, with the numbers of their cells.

        Raises:
            QueueNotFound: the queue does not exist.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
        return self._engine.up_to(
            max_messages,
            lambda client, number: client.sweep_dead_letters(qname, number),
            join_id,
        )

    def sweep_groups(self, qname: str) -> int:
        """
        Admit messages of groups whose last admitted message is gone, in every cell.

        Args:
            qname: the queue's name.

        Returns:
            The number of messages that were admitted.

        Raises:
            QueueNotFound: the queue does not exist.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        return sum(self._engine.on_each(lambda client: client.sweep_groups(qname)))

    def sweep_expired(self, qname: str, max_messages: int = 1000) -> list[str]:
        """
        Remove visible messages that are expired, or move them to the dead-letter queue.

        Args:
            qname: the queue's name.
            max_messages: the maximum number of messages in all cells, 1 to 10,000.

        Returns:
            The ids of the messages that were removed or moved, with the numbers of their cells.

        Raises:
            QueueNotFound: the queue does not exist.
            PartlyDone: some cells can't be reached, or don't have the queue.
        """
        check_whole_number("max_messages", max_messages, 1, MAX_BATCH)
        return self._engine.up_to(
            max_messages,
            lambda client, number: client.sweep_expired(qname, number),
            join_id,
        )

    def redrive_messages(
        self,
        dead_letter_queue: str | Iterable[Message | StoredMessage],
        destination: str | None = None,
        ids: Iterable[str] | None = None,
        *,
        max_messages: int | None = None,
        confirm: Confirm | None = None,
        **old: Unpack[OldConfirmation],
    ) -> list[tuple[str, str]]:
        """
        Send dead letters again as new messages, each in its cell.

        Args:
            dead_letter_queue: as for ``RSMQ.redrive_messages``.
            destination: as for ``RSMQ.redrive_messages``.
            ids: as for ``RSMQ.redrive_messages``, with or without the numbers of their cells.
            max_messages: the maximum number of messages in all cells, from 1; None means all.
            confirm: as for ``RSMQ.redrive_messages``.

        Returns:
            For each message its old and its new id, with the numbers of their cells.

        Raises:
            QueueNotFound: one of the queues does not exist.
            PartlyDone: some cells can't be reached, or don't have the queues.
            NotReplicated: as for ``RSMQ.redrive_messages``; the cells after the one that was
                not confirmed in time were not called.
        """
        copies = self._confirm_for(confirm, old)
        if max_messages is not None:
            check_whole_number("max_messages", max_messages, 1, 10**9)
        if isinstance(dead_letter_queue, str) and ids is None:
            return self._engine.up_to(
                max_messages,
                lambda client, number: client.redrive_messages(
                    dead_letter_queue, destination, max_messages=number, confirm=copies
                ),
                lambda cell, pair: (join_id(cell, pair[0]), join_id(cell, pair[1])),
            )
        if max_messages is not None:
            raise InvalidFormat(
                "max_messages", value=max_messages, hint="Pass it without messages or ids."
            )

        def redrive(client: CellClient, of_cell: Any, *of_ids: list[str]) -> list[str]:
            try:
                pairs = client.redrive_messages(of_cell, destination, *of_ids, confirm=copies)
            except NotReplicated as error:
                error.result = [id for pair in error.result for id in pair]
                raise
            return [id for pair in pairs for id in pair]

        if isinstance(dead_letter_queue, str):
            changed = self._change(dead_letter_queue, ids, redrive)
        elif ids is None:
            groups = group_dead_letters(dead_letter_queue, self._number)
            changed = self._engine.in_cells(groups, redrive)
        else:
            raise InvalidFormat(
                "ids", value=show(ids), hint="Pass messages, or a queue's name and ids."
            )
        return list(zip(changed[::2], changed[1::2], strict=True))

    def close(self) -> None:
        """
        Close the connections of this client. Clients that were passed in stay open.

        Waiting calls in other threads end with ClientClosed.
        """
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ns={self._ns!r}, cells={self._number})"


def open_queues(
    urls: Sequence[str], *, cells: int | None = None, **settings: Any
) -> RSMQ[Any] | Cells:
    """
    Return a client of a namespace, or of a set of cells if there is a number of cells.

    Args:
        urls: the URL, or the URL of each cell.
        cells: the number of cells; None for a namespace.
        settings: the other arguments of ``from_url``.

    Raises:
        InvalidFormat, InvalidValue, MissingParameter, MissingExtra: as of ``from_url``.
    """
    if cells is None:
        return RSMQ.from_url(urls[0], **settings)
    return Cells.from_url(list(urls), cells=cells, **settings)


def _refuse_id(message: Message | str, id: object) -> None:
    """Raise InvalidFormat if there is an id after a message."""
    if isinstance(message, Message) and id is not None:
        raise InvalidFormat(
            "id", value=show(id), hint="Pass a message, or a queue's name and an id, not both."
        )


def _add_cell_to_result(cell: int | None, result: Any) -> Any:
    """Return the result of a send with the number of its cell in each id."""
    if cell is None:
        return result
    if isinstance(result, dict):
        return {name: join_id(cell, id) for name, id in result.items()}
    if isinstance(result, list):
        return join_ids(cell, result)
    return join_id(cell, result) if isinstance(result, str) else result
