"""
The calls of the clients, and where each face has them.

A call of the clients is a row. From the rows follow the commands of the program that are one call,
and the names of calls in the hints of errors. Tests fail while a client, the routes of HTTP, the
program, or a table of the docs has a call that has no row, or lacks one without a reason here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class User(Enum):
    """The users of Redis by their rights, each with those of the one before (docs/security.md)."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMINISTRATOR = "administrator"


class Outcome(Enum):
    """The form of the result of a call, in text and in JSON."""

    #: A list of texts: one a line; an array.
    TEXTS = "texts"
    #: A text: a line; an object with the name and the text.
    TEXT = "text"
    #: A number: with the word; an object with the number under the word.
    NUMBER = "number"
    #: Whether each queue has changed: a line for each; an array of objects.
    OF_QUEUES = "of queues"
    #: The same of other names. One that has not changed gives the exit code 1.
    OF_NAMES = "of names"
    #: The ids of the messages that have changed: one a line; an object with them and the others.
    OF_IDS = "of ids"


@dataclass(frozen=True, slots=True)
class OneCall:
    """
    A command that is one call.

    Attributes:
        summary: its purpose, as the list of commands has it.
        outcome: the form of the result.
        arguments: its arguments as the help shows them; the first one is the first of the method.
        word: what has happened, as in ``deleted``; of a text, its name.
        otherwise: what is so if nothing has changed.
        options: its options as the help shows them, by the arguments of the method.
        detail: further sentences of the help.
        examples: examples of calls, one line each.
    """

    summary: str
    outcome: Outcome
    arguments: str = ""
    word: str = ""
    otherwise: str = ""
    options: str = ""
    detail: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodRow:
    """
    A call of the clients.

    Attributes:
        name: the method; those of schedules as ``schedules.add``.
        command: the command of the program; empty if there is none.
        route: the method and the path of HTTP; empty if there is none.
        user: whose rights it needs at least.
        further: rights that its command needs beside them.
        one_call: how the program runs it, if the command is this call.
        why_not: why faces have no such call, if one lacks it.
    """

    name: str
    command: str = ""
    route: str = ""
    user: User = User.ADMINISTRATOR
    further: str = ""
    one_call: OneCall | None = None
    why_not: str = ""


_OF_PROGRAMS = "the connections of a program"
_FOR_PACKAGES = "for packages that are built on the client"

CALLS: tuple[MethodRow, ...] = (
    MethodRow("create_queue", "create", "PUT /queues/{queue}"),
    MethodRow("delete_queue", "delete-queue", "DELETE /queues/{queue}"),
    MethodRow(
        "list_queues", "list", "GET /queues",
        one_call=OneCall(
            "List the queues.",
            Outcome.TEXTS,
            detail="It prints one name per line. Queues that a client has created without "
            "listing them are missing here, but they work.",
            examples=("rsmq ls", "rsmq list --json"),
        ),
    ),
    MethodRow("get_queue_attributes", "attributes", "GET /queues/{queue}"),
    MethodRow("set_queue_attributes", "attributes", "PATCH /queues/{queue}"),
    MethodRow(
        "pause_queue", "pause", "POST /queues/{queue}:pause",
        one_call=OneCall(
            "Stop workers from receiving from queues.",
            Outcome.OF_QUEUES, "QUEUE...", "paused", "was paused already",
            detail="Workers still process the messages that they have received. Producers, and "
            "consumers that are not workers, are not affected.",
            examples=("rsmq pause orders",),
        ),
    ),
    MethodRow(
        "resume_queue", "resume", "POST /queues/{queue}:resume",
        one_call=OneCall(
            "Let workers receive from paused queues again.",
            Outcome.OF_QUEUES, "QUEUE...", "resumed", "was resumed already",
            examples=("rsmq resume orders",),
        ),
    ),
    MethodRow("set_queue_limits", "limit", "PUT /queues/{queue}/limits"),
    MethodRow("purge_queue", "purge", "POST /queues/{queue}:purge"),
    MethodRow("count_messages", "stats", "GET /queues/{queue}/counts"),
    MethodRow("send_message", "send", "POST /queues/{queue}/messages", User.PRODUCER),
    MethodRow("send_messages", "send", "POST /queues/{queue}/messages:batch", User.PRODUCER),
    MethodRow("publish", "publish", "POST /publish", User.PRODUCER),
    MethodRow("receive_message", "receive", "POST /receive", User.CONSUMER),
    MethodRow("receive_messages", "receive", "POST /receive", User.CONSUMER),
    MethodRow(
        "consume", user=User.CONSUMER,
        why_not="a loop of receives, which a program makes itself",
    ),
    MethodRow("pop_message", "pop", "POST /pop", User.CONSUMER),
    MethodRow("pop_messages", "pop", "POST /pop", User.CONSUMER),
    MethodRow(
        "processing", user=User.CONSUMER,
        why_not="a receive and a delete, with a block of a program between them",
    ),
    MethodRow("delete_message", "delete", "DELETE /queues/{queue}/messages/{id}", User.CONSUMER),
    MethodRow(
        "delete_messages", "delete", "POST /queues/{queue}/messages:delete", User.CONSUMER,
        one_call=OneCall(
            "Delete messages.",
            Outcome.OF_IDS, "QUEUE ID...", "deleted",
            detail="Messages that are in flight are deleted too. The exit code is 1 if a "
            "message is not in the queue.",
            examples=("rsmq delete orders ID", "rsmq rm orders ID ID --json"),
        ),
    ),
    MethodRow(
        "change_message_visibility", "visibility", "PATCH /queues/{queue}/messages/{id}",
        User.CONSUMER,
    ),
    MethodRow(
        "change_messages_visibility", "visibility", "POST /queues/{queue}/messages:visibility",
        User.CONSUMER,
        one_call=OneCall(
            "Set for how long messages are hidden from now on.",
            Outcome.OF_IDS, "QUEUE ID...", "changed",
            options="--vt DURATION  How long to hide them from now on, 0 to 9,999,999; 0 makes "
            "them visible.  [required]",
            detail="It changes any message, also one that another consumer has received. The "
            "exit code is 1 if a message is not in the queue.",
            examples=("rsmq visibility orders ID --vt 600", "rsmq vs orders ID --vt 0"),
        ),
    ),
    MethodRow(
        "release_messages", "release", "POST /queues/{queue}/messages:release", User.CONSUMER
    ),
    MethodRow("release_all_messages", "release", "POST /queues/{queue}:release-all"),
    MethodRow("recover_messages", "recover", "POST /queues/{queue}/messages:recover"),
    MethodRow("get_message", "get", "GET /queues/{queue}/messages/{id}", User.CONSUMER),
    MethodRow("peek_messages", "peek", "GET /queues/{queue}/messages"),
    MethodRow("history", "history", "GET /queues/{queue}/history", further="+hgetall"),
    MethodRow("set_dead_letter_policy", "dead-letter", "PUT /queues/{queue}/dead-letter-policy"),
    MethodRow("sweep_dead_letters", "sweep", "POST /queues/{queue}:sweep"),
    MethodRow(
        "sweep_expired", "sweep-expired", "POST /queues/{queue}:sweep-expired",
        one_call=OneCall(
            "Remove messages that are expired, or move them to a dead-letter queue.",
            Outcome.TEXTS, "QUEUE",
            options="--number, -n, max_messages N  The highest number of messages, 1 to 10,000.  "
            "[default: 1000]",
            detail="Use it for queues whose consumers are Node or PHP programs, which deliver "
            "expired messages. It prints the ids of the messages. Messages that are in "
            "flight stay.",
            examples=("rsmq sweep-expired orders",),
        ),
    ),
    MethodRow(
        "sweep_groups", "sweep-groups", "POST /queues/{queue}:sweep-groups",
        one_call=OneCall(
            "Admit messages of groups whose last message another client has deleted.",
            Outcome.NUMBER, "QUEUE", "admitted",
            detail="Workers do this once a minute. Use it for queues with groups whose "
            "consumers are all Node or PHP programs, once a minute. It prints how many "
            "messages were admitted.",
            examples=("rsmq sweep-groups orders",),
        ),
    ),
    MethodRow("redrive_messages", "redrive", "POST /queues/{queue}:redrive"),
    MethodRow(
        "move_messages", "move", "POST /queues/{queue}/messages:move",
        one_call=OneCall(
            "Move messages to another queue.",
            Outcome.OF_IDS, "QUEUE ID...", "moved",
            options="--to, destination QUEUE  The target queue.  [required]",
            detail="They keep their ids and counters. Messages that are in flight are moved "
            "too. The exit code is 1 if a message is not in the queue.",
            examples=("rsmq move orders ID ID --to invoices",),
        ),
    ),
    MethodRow("job", "job", "GET /queues/{queue}/jobs/{id}"),
    MethodRow("jobs", "jobs", "GET /queues/{queue}/jobs"),
    MethodRow("wait_for_jobs", "job", "GET /queues/{queue}/jobs/{id}"),
    MethodRow("workers.list", "workers", "GET /workers", further="+hgetall"),
    MethodRow("workers.running", "worker", "POST /workers/{worker}:running"),
    MethodRow("workers.pause", "worker", "POST /workers/{worker}:pause"),
    MethodRow("workers.resume", "worker", "POST /workers/{worker}:resume"),
    MethodRow("workers.set_concurrency", "worker", "PUT /workers/{worker}/concurrency"),
    MethodRow("workers.stop", "worker", "POST /workers/{worker}:stop"),
    MethodRow("flow", "flow", "GET /flows/{flow}"),
    MethodRow("flows", "flows", "GET /flows"),
    MethodRow("schedules.add", "schedule add", "PUT /schedules/{schedule}"),
    MethodRow("schedules.declare", why_not="for definitions in the code of a worker"),
    MethodRow("schedules.list", "schedule list", "GET /schedules"),
    MethodRow("schedules.get", "schedule show", "GET /schedules/{schedule}"),
    MethodRow(
        "schedules.remove", "schedule remove", "DELETE /schedules/{schedule}",
        one_call=OneCall(
            "Remove schedules. Messages that they have sent stay.",
            Outcome.OF_NAMES, "NAME...", "removed", "there is none",
            examples=("rsmq schedule remove report",),
        ),
    ),
    MethodRow(
        "schedules.pause", "schedule pause", "POST /schedules/{schedule}:pause",
        one_call=OneCall(
            "Pause schedules. Their times pass without a message.",
            Outcome.OF_NAMES, "NAME...", "paused", "was paused already",
            examples=("rsmq schedule pause report",),
        ),
    ),
    MethodRow(
        "schedules.resume", "schedule resume", "POST /schedules/{schedule}:resume",
        one_call=OneCall(
            "Resume paused schedules, with their next times.",
            Outcome.OF_NAMES, "NAME...", "resumed", "was not paused",
            examples=("rsmq schedule resume report",),
        ),
    ),
    MethodRow(
        "schedules.run_now", "schedule run", "POST /schedules/{schedule}:run",
        one_call=OneCall(
            "Send the message of a schedule now, once. Its times stay as they are.",
            Outcome.TEXT, "NAME", "id",
            examples=("rsmq schedule run report",),
        ),
    ),
    MethodRow(
        "trash.purge_queue", "purge --undo", "POST /queues/{queue}:purge",
        further="+hkeys +info +pttl +renamenx",
    ),
    MethodRow(
        "trash.delete_queue", "delete-queue --undo", "DELETE /queues/{queue}",
        further="+hkeys +info +pttl +renamenx",
    ),
    MethodRow(
        "trash.delete_messages", route="POST /queues/{queue}/messages:delete",
        why_not="rsmq delete takes ids, which a person has looked at",
    ),
    MethodRow("trash.list", "undo", "GET /undo"),
    MethodRow(
        "trash.undo", "undo", "POST /undo/{id}",
        further="+exists +hgetall +info +persist +pexpireat +pttl +renamenx",
    ),
    MethodRow("trash.why_off", route="GET /undo", why_not="rsmq purge --undo raises it"),
    MethodRow("trash.empty", why_not="for the server itself, once a minute"),
    MethodRow("close", why_not=_OF_PROGRAMS),
    MethodRow("from_url", why_not=_OF_PROGRAMS),
    MethodRow("with_reply_timeout", why_not=_OF_PROGRAMS),
    MethodRow("run", why_not=_FOR_PACKAGES),
    MethodRow("run_steps", why_not=_FOR_PACKAGES),
)  # fmt: skip

BY_NAME = {each.name: each for each in CALLS}
