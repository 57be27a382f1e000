"""
The exceptions of this library.

    RSMQError
    ├── NoAttributeSupplied   noAttributeSupplied
    ├── ArgumentError         invalidArgument
    │   ├── MissingParameter  missingParameter
    │   ├── InvalidFormat     invalidFormat
    │   └── InvalidValue      invalidValue
    │       └── InvalidCombination invalidFormat
    ├── MessageNotString      messageNotString
    ├── MessageTooLong        messageTooLong
    ├── QueueNotFound         queueNotFound
    ├── QueueExists           queueExists
    ├── BodyNotDecodable      bodyNotDecodable
    ├── BodyUnavailable       bodyUnavailable
    ├── ClientClosed          clientClosed
    ├── MissingExtra          missingExtra
    ├── InvalidOption         invalidOption
    ├── BatchLost             batchLost
    │   └── CheckpointSetBack checkpointSetBack
    ├── LeaseTakenOver        leaseTakenOver
    ├── NewerVersion          newerVersion
    ├── ScanBroken            scanBroken
    ├── InvalidExport         invalidExport
    ├── SourceNotFound        sourceNotFound
    ├── SourceChanged         sourceChanged
    ├── NotPossible           notPossible
    │   └── RunReplaced       runReplaced
    ├── SubscriberExists      subscriberExists
    ├── NotReplicated         notReplicated
    ├── ReplyLost             replyLost
    ├── WorkerExists          workerExists
    ├── WorkerNotFound        workerNotFound
    ├── WorkerReplaced        workerReplaced
    ├── TooManyHungCalls      tooManyHungCalls
    ├── ExecutorEnded         executorEnded
    ├── ExecutorStalled       executorStalled
    ├── NotEmptyInTime        notEmptyInTime
    ├── JobFailed             jobFailed
    ├── JobCancelled          jobCancelled
    ├── JobExpired            jobExpired
    ├── JobNotFound           jobNotFound
    ├── JobNotEnded           jobNotEnded
    ├── JobNotTracked         jobNotTracked
    ├── NotTracked            notTracked
    ├── FlowFailed            flowFailed
    ├── FlowCancelled         flowCancelled
    ├── FlowNotFound          flowNotFound
    └── FlowNotEnded          flowNotEnded

An InvalidCombination is both an InvalidValue and an InvalidFormat.
Only Spark raises InvalidOption, BatchLost, CheckpointSetBack, LeaseTakenOver, NewerVersion and
ScanBroken; only an import raises InvalidExport; only a migration raises SourceNotFound,
SourceChanged and RunReplaced; only subscribers of webhooks raise SubscriberExists; only calls that
wait for replicas raise NotReplicated; only receives and recovers raise ReplyLost; only workers
raise the six after these, only handles on jobs the six after those, only handlers get
NotTracked, and only handles on flows the last four.

``str(error)`` is one line: the fault, the refused value, and the remedy. It never contains a body
or a password. The first eight errors are RSMQ's own: ``code`` is the name of the Node client's
error, and ``text`` is exactly its text.
Connection errors (refused, timed out, not permitted) are redis-py's own classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rsmq.errors.hints import PYTHON, Hint, Method, Passed, Words, in_words
from rsmq.errors.hints import Shown as Shown
from rsmq.errors.hints import show as show
from rsmq.errors.printable import format_count

_NO_VALUE: Any = object()


class RSMQError(Exception):
    """
    The base class of all errors of rsmq.

    Attributes:
        code: the name that the Node client gives this error.
        text: for RSMQ's own errors exactly the text of the Node client; else the same as summary.
        value: the refused value (for a body, a client or a codec a short text); None if there is
            none.
        summary: the fault and the refused value, in one sentence without a full stop.
        hint: the rule or the remedy, in one sentence or two; None if there is none.
    """

    code: ClassVar[str] = "rsmqError"

    def __init__(
        self,
        text: str,
        *,
        value: object = None,
        hint: str | None = None,
        summary: str | None = None,
        about: str = "",  # follows the text in the summary
    ) -> None:
        super().__init__(text)
        self.text = text
        self.value = value
        self.hint = hint
        self.summary: str = summary or (f"{text}: {about}" if about else text)

    def __str__(self) -> str:
        return self.in_words(PYTHON)

    def in_words(self, words: Words) -> str:
        """Return the fault and the remedy in one line, with the names of a face."""
        return join_sentences(self.summary_in(words), self.hint_in(words))

    def summary_in(self, _: Words, /) -> str:
        """Return the summary, with the names of a face."""
        return self.summary

    def hint_in(self, words: Words) -> str | None:
        """Return the hint, with the names of a face."""
        return None if self.hint is None else in_words(self.hint, words)

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors of the subclasses take parts of the text. An error that is sent to
        # another process must therefore be restored from the complete text.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[RSMQError], args: tuple[Any, ...], state: dict[str, Any]) -> RSMQError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def add_remedy(error: Exception, text: str) -> None:
    """
    Add what was done before an error, and what to do now.

    Args:
        error: an error of this library, which gets a longer hint; or another, which gets a note.
        text: one sentence or two, with full stops.
    """
    if isinstance(error, RSMQError):
        error.hint = text if error.hint is None else error.hint + f" {text}"
    else:
        error.add_note(text)


def join_sentences(summary: str, hint: str | None) -> str:
    """Return a fault and its remedy in one line, without a full stop at the end."""
    if not hint:
        return summary
    return f"{summary.removesuffix('.')}. {hint.removesuffix('.')}"


class NoAttributeSupplied(RSMQError):
    """set_queue_attributes was called without an attribute."""

    code = "noAttributeSupplied"

    def __init__(self) -> None:
        super().__init__(
            "No attribute was supplied",
            hint="Pass at least one of vt, delay, maxsize, keep and expired.",
        )


class ArgumentError(RSMQError):
    """
    The base class of the errors about an argument.

    Attributes:
        argument: the name of the argument, or of a part of it.
        has_value: whether ``value`` is the refused value.
    """

    code = "invalidArgument"
    _TEXT: ClassVar[str]
    _VALUE: ClassVar[str]

    def __init__(
        self, item: str, *, value: object = _NO_VALUE, hint: str | None = None, **facts: object
    ) -> None:
        self.argument: str = item
        self._facts = facts
        self.has_value: bool = value is not _NO_VALUE
        super().__init__(
            self._TEXT.format(item, **facts),
            value=value if self.has_value else None,
            hint=hint,
            summary=self._describe(value, PYTHON),
        )

    def summary_in(self, words: Words, /) -> str:
        return self._describe(self.value, words)

    def _describe(self, value: object, words: Words) -> str:
        text = self._TEXT.format(words.argument(self.argument), **self._facts)
        return text + self._VALUE.format(words.value(value)) if self.has_value else text


class MissingParameter(ArgumentError):
    """A name or an id is None or empty."""

    code = "missingParameter"
    _TEXT = "No {} supplied"
    _VALUE = ": got {}"


class InvalidFormat(ArgumentError):
    """A name, an id, a namespace, a codec or a client does not have the required form."""

    code = "invalidFormat"
    _TEXT = "Invalid {} format"
    _VALUE = ": {}"


class InvalidValue(ArgumentError):
    """
    A number is out of its range, or the value is not a number.

    Attributes:
        range: the smallest and the largest number.
    """

    code = "invalidValue"
    _TEXT = "{} must be between {low} and {high}"
    _VALUE = ", not {}"

    def __init__(
        self,
        item: str,
        low: float,
        high: float,
        *,
        value: object = _NO_VALUE,
        hint: str | None = None,
    ) -> None:
        self.range: tuple[float, float] = (low, high)
        super().__init__(item, value=value, hint=hint, low=low, high=high)


class InvalidCombination(InvalidFormat, InvalidValue):
    """
    Arguments of a call that exclude each other, or one that lacks another.

    Attributes:
        argument: the name of the argument that lacks or excludes others.
        reason: why, in one sentence that names no argument.
        needs: of each of these groups of arguments, it needs one.
        excludes: the arguments that it can't be combined with.
    """

    def __init__(
        self,
        item: str,
        *,
        value: object,
        reason: str,
        needs: tuple[tuple[str, ...], ...] = (),
        excludes: tuple[str, ...] = (),
    ) -> None:
        self.reason: str = reason
        self.needs: tuple[tuple[str, ...], ...] = needs
        self.excludes: tuple[str, ...] = excludes
        ArgumentError.__init__(self, item, value=value, hint=f"{reason} {self.rule('It')}")

    def hint_in(self, words: Words) -> str:
        return f"{self.reason} {self.rule('It', words.argument)}"

    def rule(self, subject: str, name_of: Callable[[str], str] = str) -> str:
        """
        Return the rule as a sentence, with the names of arguments as a face has them.

        Args:
            subject: the argument, or a word for it.
            name_of: returns the name of an argument.
        """
        needs = " and ".join(" or ".join(map(name_of, one_of)) for one_of in self.needs)
        if needs:
            return f"{subject} needs {needs}."
        return f"{subject} can't be combined with {' or '.join(map(name_of, self.excludes))}."


class MessageNotString(RSMQError):
    """The codec can't encode the body."""

    code = "messageNotString"

    def __init__(
        self, *, value: object = None, hint: str | None = None, summary: str | None = None
    ) -> None:
        super().__init__("Message must be a string", value=value, hint=hint, summary=summary)


class MessageTooLong(RSMQError):
    """The body is larger than the queue's maxsize; ``value`` is its size."""

    code = "messageTooLong"

    def __init__(
        self, *, value: object = None, hint: str | None = None, summary: str | None = None
    ) -> None:
        super().__init__("Message too long", value=value, hint=hint, summary=summary)


class QueueNotFound(RSMQError):
    """The queue does not exist, or lacks attributes; ``value`` is its name."""

    code = "queueNotFound"

    def __init__(self, qname: str, ns: str | None = None) -> None:
        super().__init__(
            "Queue not found",
            value=qname,
            hint=Hint("Create it with ", Method("create_queue", queue=qname)),
            about=_show_queue(qname, ns),
        )


class QueueExists(RSMQError):
    """The queue to be created already exists; ``value`` is its name."""

    code = "queueExists"

    def __init__(self, qname: str, ns: str | None = None) -> None:
        super().__init__(
            "Queue exists",
            value=qname,
            hint="Pass exist_ok=True to use it as it is, or change it with set_queue_attributes.",
            about=_show_queue(qname, ns),
        )


def _show_queue(qname: str, ns: str | None) -> str:
    return show(qname) if ns is None else f"{show(qname)} (namespace {show(ns)})"


def _show_job(queue: str, id: str) -> str:
    return f"{show(id)} of queue {show(queue)}"


class BodyNotDecodable(RSMQError):
    """
    The codec can't decode this body; ``__cause__`` is the codec's own error.

    Attributes:
        queue: the name of the queue.
        id: the id of the message.
        raw: the body as the bytes that are stored in Redis.
        key_id: the id of the key with which the body is encrypted; None if it is not.
    """

    code = "bodyNotDecodable"

    def __init__(
        self,
        queue: str,
        id: str,
        raw: bytes,
        *,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            f"The codec can't decode the body of message {id} in queue {show(queue)}",
            value=show(raw),
            hint=hint or "message.raw has the bytes; codec=BYTES receives any body.",
        )
        self.queue = queue
        self.id = id
        self.raw = raw
        self.key_id: str | None = None


class BodyUnavailable(RSMQError):
    """
    A codec can't reach what it needs for a body now, such as its key; ``__cause__`` says why.

    A send has stored nothing. ``Message.body`` may be read again later; a worker hides the message,
    and the call is not an attempt.
    """

    code = "bodyUnavailable"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} can't be reached now", hint="Try again later.")


class ClientClosed(RSMQError):
    """close() was called on this client."""

    code = "clientClosed"

    def __init__(self) -> None:
        super().__init__("Client is closed", hint="Create a new client after close().")


class MissingExtra(RSMQError, ImportError):
    """An optional part of rsmq is not installed."""

    code = "missingExtra"

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs the extra {extra!r}",
            value=extra,
            hint=f"In a clone of the repository: pip install '.[{extra}]'",
        )


class InvalidOption(RSMQError, ValueError):
    """An option of Spark's rsmq format is missing, unknown, or has an invalid value."""

    code = "invalidOption"

    def __init__(self, name: str, rule: str, *, value: object = None) -> None:
        super().__init__(f"Option {name}: {rule}", value=value)


class BatchLost(RSMQError):
    """Messages that Spark planned to read or to publish are no longer in Redis."""

    code = "batchLost"


class CheckpointSetBack(BatchLost):
    """
    Spark asks for a batch that was already processed; ``value`` is the batch's number.

    The checkpoint is older than the last batch that was acknowledged or written: it was restored
    from a backup, or files were deleted. Sinks skip batches that they have already written, so new
    messages under such a number would be lost.
    """

    code = "checkpointSetBack"

    def __init__(self, of: str, number: int, last: int, done: str, way_out: str) -> None:
        super().__init__(
            f"The checkpoint of {of} was set back, and is older than its queue: it asks for batch "
            f"{number}, but batch {last} was {done} already",
            value=number,
            hint="New messages would be lost in sinks that have this batch. Restore the newest "
            f"checkpoint, or start with a new checkpointLocation{way_out}.",
        )


class LeaseTakenOver(RSMQError):
    """Another process continues the stream of this one; ``value`` is its name."""

    code = "leaseTakenOver"

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"The stream {lease} was taken over by another process, which continues it",
            value=lease,
            hint="Run one query for each checkpoint and each consumerGroup. This one has received "
            "nothing since.",
        )


class NewerVersion(RSMQError):
    """A newer version of this library has stored something; ``value`` is the version of that."""

    code = "newerVersion"

    def __init__(self, what: str, version: object) -> None:
        super().__init__(
            f"{what} was stored by a newer version of rsmq, in the form {show(version)}, which "
            "this one does not know",
            value=version,
            hint="Install that version on the driver and on all executors.",
        )


class ScanBroken(RSMQError):
    """A read of a queue in steps can't be completed exactly; ``value`` is the queue's name."""

    code = "scanBroken"

    def __init__(self, queue: str, reason: str) -> None:
        super().__init__(
            f"The scan of queue {show(queue)} can't be completed: {reason}",
            value=queue,
            hint="Read again, or with snapshot=exact, which reads all ids in one step.",
        )


class InvalidExport(RSMQError, ValueError):
    """A file to be imported is not a valid export; ``value`` is the number of the line."""

    code = "invalidExport"

    def __init__(self, line: int, wrong: str, *, hint: str | None = None) -> None:
        super().__init__(f"Line {line} of the export {wrong}", value=line, hint=hint)


class SourceNotFound(RSMQError):
    """A queue of another system does not exist; ``value`` is its name."""

    code = "sourceNotFound"


class SourceChanged(RSMQError):
    """A list without message ids was changed while it was copied; ``value`` is its key."""

    code = "sourceChanged"


class NotPossible(RSMQError):
    """A call can't be carried out with these queues, options or stored data."""

    code = "notPossible"


class SubscriberExists(RSMQError):
    """
    A subscriber of this name has other settings, or its queue exists already; ``value`` is the name
    of that queue.
    """

    code = "subscriberExists"

    def __init__(self, own_queue: str, *, is_queue_of_others: bool) -> None:
        if is_queue_of_others:
            text = "The queue of the subscriber exists already"
            hint = "Give the subscriber another name, or delete the queue if it is unused."
        else:
            text = "The subscriber exists, with other settings or as one that is being removed"
            hint = Hint("Pass ", Passed("replace", True), " to change it.")
        super().__init__(text, value=own_queue, hint=hint, about=show(own_queue))


class NotReplicated(RSMQError):
    """
    A call has changed the primary, and fewer replicas than wished have confirmed it in time.

    It was not repeated: a send that is repeated without a dedup_id stores a second message.

    Attributes:
        result: what the call would have returned, such as the id of the message.
    """

    code = "notReplicated"

    def __init__(self, result: Any, missing: str, timeout: float) -> None:
        super().__init__(
            "Stored on the primary, but not confirmed",
            value=missing,
            hint=f"After {format_count(timeout, 'second')} it was {missing}. It may get "
            "lost if another server takes over before it has been copied. Only a send with "
            "a dedup_id may be repeated.",
        )
        self.result: Any = result


class ReplyLost(RSMQError):
    """
    The replies to several requests for one message were lost, one after another.

    The message is probably too large for the server or for a proxy on the way. It is still in its
    queue.
    """

    code = "replyLost"

    def __init__(self, number: int, queues: tuple[str, ...]) -> None:
        super().__init__(
            "The reply was lost",
            value=list(queues),
            summary=f"The replies to {format_count(number, 'receive')} of one message of "
            f"{show_all(queues)} were lost",
            hint=Hint(
                "If the message is larger than a reply may be, raise the limit: Redis closes a "
                "connection at its setting client-output-buffer-limit normal, and a proxy has a "
                "limit of its own. To find the message, call ",
                Method("peek_messages"),
                " from a server without the limit.",
            ),
        )


class RunReplaced(NotPossible):
    """
    Another run of the same move or copy has replaced this one; ``value`` is the key.

    This run has not added the messages of its last step. The error is also raised if the target
    queue was deleted during the run.
    """

    code = "runReplaced"

    def __init__(self, key: str) -> None:
        super().__init__(
            "Another run of this migration has replaced this one, or the target queue was deleted",
            value=key,
            hint="Let that run end, or stop it; then run this one again.",
        )


class WorkerExists(RSMQError):
    """
    Another worker of this name is alive; ``value`` is the name.

    Attributes:
        location: its process and host.
    """

    code = "workerExists"

    def __init__(self, name: str, location: str) -> None:
        super().__init__(
            f"A worker named {show(name)} is running",
            value=name,
            hint=f"It runs on {location}. Stop it, or give this worker another name.",
        )
        self.location = location


class WorkerNotFound(RSMQError):
    """No worker of this name is alive; ``value`` is the name."""

    code = "workerNotFound"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No worker named {show(name)} is alive",
            value=name,
            hint=Hint(Method("workers.list"), " lists the workers of the namespace."),
        )


class WorkerReplaced(RSMQError):
    """
    Another worker has taken this worker's name, because it seemed dead; ``value`` is the key.

    It appears in a worker's log: the worker stops, and it has lost the messages that it had in
    flight.
    """

    code = "workerReplaced"

    def __init__(self, key: str) -> None:
        super().__init__(
            "Another worker took over this worker's name",
            value=key,
            hint="This worker sent no heartbeat for some seconds, and another process took over "
            "its name and its messages.",
        )


class TooManyHungCalls(RSMQError):
    """
    As many handler calls as the worker's concurrency exceed max_runtime and have not ended.

    ``value`` is their number. The worker stops: Python can't end their threads, and each of them
    holds memory and connections. A supervisor restarts the process.
    """

    code = "tooManyHungCalls"

    def __init__(self, number: int) -> None:
        super().__init__(
            "Too many handler calls hang",
            value=number,
            hint=f"{number} ran for longer than max_runtime and did not end. Give the handlers' "
            "network calls timeouts, and restart the worker.",
        )


class ExecutorEnded(RSMQError):
    """
    The event loop of a worker's async handlers, or a thread of its plain ones, has ended.

    ``value`` is the cause. The worker stops, because its handlers can't be called any more. A
    supervisor restarts the process.
    """

    code = "executorEnded"

    def __init__(self, cause: str) -> None:
        super().__init__(
            "The handlers of the worker can't be called any more",
            value=cause,
            hint=f"{cause}. A handler or a task must not call sys.exit() or loop.stop(); restart "
            "the worker.",
        )


class ExecutorStalled(RSMQError):
    """
    A worker could not call its handlers for too long.

    An async handler has blocked the event loop of all async handlers, or the system allows no
    thread. ``value`` is the cause. The worker stops, and a supervisor restarts the process.
    """

    code = "executorStalled"

    def __init__(self, cause: str, seconds: float, remedy: str) -> None:
        super().__init__(
            "The handlers of the worker could not be called for too long",
            value=cause,
            hint=f"{cause}, for {seconds:.3g} s. {remedy}, and restart the worker.",
        )


class NotEmptyInTime(RSMQError):
    """A worker's queues were not empty in time; ``value`` says how many messages are left."""

    code = "notEmptyInTime"

    def __init__(self, timeout: float | None, rest: str) -> None:
        super().__init__(
            "The queues are not empty in time",
            value=rest,
            hint=f"After {format_count(timeout or 0, 'second')}, messages are left: {rest}.",
        )


def show_type(value: object) -> str:
    """Return the type of a value, for errors about values that may contain secrets."""
    kind = type(value)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return Shown("None" if value is None else f"{name} object")


def show_all(queues: tuple[str, ...]) -> str:
    """Return the names of queues, for hints."""
    return show(queues[0]) if len(queues) == 1 else " or ".join(map(show, queues))


class JobFailed(RSMQError):
    """
    The handler of a tracked message has failed for the last time; ``value`` is the id.

    Attributes:
        error: type and text of its exception.
    """

    code = "jobFailed"

    def __init__(self, queue: str, id: str, error: str) -> None:
        summary = f"Job {show(id)} of queue {show(queue)} has failed: {error}"
        super().__init__("The job has failed", value=id, summary=summary)
        self.error = error


class JobCancelled(RSMQError):
    """A tracked message was cancelled; ``value`` is the id."""

    code = "jobCancelled"

    def __init__(self, queue: str, id: str) -> None:
        super().__init__("The job was cancelled", value=id, about=_show_job(queue, id))


class JobExpired(RSMQError):
    """A tracked message has left its queue, and no outcome is known; ``value`` is the id."""

    code = "jobExpired"

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(
            "The message of the job is gone, and its outcome is not known",
            value=id,
            hint="It has reached its expires, a client that keeps no records has deleted, popped "
            "or moved it, or the queue was purged. All workers of the queue need track=True.",
            about=_show_job(queue, id),
        )


class JobNotFound(RSMQError):
    """There is neither a message nor a record of this id; ``value`` is the id."""

    code = "jobNotFound"

    def __init__(self, queue: str, id: str, *, has_queue: bool = True) -> None:
        text = "There is no such job, or it has ended without a record"
        hint = Hint(
            "A record needs ",
            Passed("track", True),
            " of the task, the listener or the send, and lives for its result_ttl after the end, "
            "one hour by default.",
        )
        super().__init__(
            text,
            value=id,
            hint=hint if has_queue else f"There is no queue {show(queue)}: check its name.",
            about=_show_job(queue, id),
        )


class JobNotEnded(RSMQError, TimeoutError):
    """A job has not ended within the timeout of the call; it continues. ``value`` is the id."""

    code = "jobNotEnded"

    def __init__(
        self,
        queue: str,
        id: str,
        seconds: float,
        state: str = "",
        attempt: int = 0,
        *,
        is_tracked: bool = True,
    ) -> None:
        text = f"The job has not ended within {seconds:g} s"
        if not is_tracked:
            hint = (
                "It has no record yet: without track=True of its task or listener, its result is "
                "never stored."
            )
        else:
            hint = "It continues: wait again, or look at its status()."
        if state in {"waiting", "retrying"}:
            hint += " It waits for a worker: rsmq workers lists those that run."
        shown = f", {state}, attempt {attempt}" if state else ""
        super().__init__(text, value=id, hint=hint, about=_show_job(queue, id) + shown)


class JobNotTracked(RSMQError):
    """A job is of a task without ``track=True``, so it has no record; ``value`` is the id."""

    code = "jobNotTracked"

    def __init__(self, queue: str, id: str, effect: str = "its result is not stored") -> None:
        super().__init__(
            f"The task of the job is not tracked, so {effect}",
            value=id,
            hint=f"Declare it with track=True: @tasks.task(queue={show(queue)}, track=True).",
            about=_show_job(queue, id),
        )


class NotTracked(RSMQError):
    """A handler has reported progress of a message that has no record; ``value`` is the id."""

    code = "notTracked"

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(
            "The message is not tracked, so its progress can't be stored",
            value=id,
            hint="Set track=True of its listener or task.",
            about=_show_job(queue, id),
        )


class FlowFailed(RSMQError):
    """
    A flow of tasks has failed; ``value`` is the id.

    Attributes:
        error: which nodes have failed, and how.
    """

    code = "flowFailed"

    def __init__(self, id: str, error: str) -> None:
        summary = f"Flow {show(id)} has failed: {error}"
        super().__init__("The flow has failed", value=id, summary=summary)
        self.error = error


class FlowCancelled(RSMQError):
    """A flow of tasks was cancelled; ``value`` is the id."""

    code = "flowCancelled"

    def __init__(self, id: str) -> None:
        super().__init__("The flow was cancelled", value=id, about=show(id))


class FlowNotFound(RSMQError):
    """There is no flow of tasks with this id; ``value`` is the id."""

    code = "flowNotFound"

    def __init__(self, id: str) -> None:
        super().__init__(
            "There is no such flow",
            value=id,
            hint="A flow lives for its result_ttl after its end, one day by default.",
            about=show(id),
        )


class FlowNotEnded(RSMQError, TimeoutError):
    """A flow has not ended within the timeout of the call; it continues. ``value`` is the id."""

    code = "flowNotEnded"

    def __init__(self, id: str, seconds: float, done: int, total: int) -> None:
        super().__init__(
            f"The flow has not ended within {seconds:g} s",
            value=id,
            hint="It continues: wait again, or look at its status().",
            about=f"{show(id)}, {done} of {total} nodes have ended",
        )
