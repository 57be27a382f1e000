"""
The calls of the clients, and where each face has them.

A call of the clients is a row. From the rows follow the commands of the program that are one call,
the arguments of all commands and routes that call it, and the names of calls in the hints of
errors. Tests fail while a client, the routes of HTTP, the program, or a table of the docs has a
call that has no row, or lacks one without a reason here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rsmq.vocabulary.call_arguments import (
    ALERT_FORMAT,
    ALERT_SECRET,
    ALERT_SUBJECT,
    ALERT_URL,
    BEGIN,
    CONCURRENCY,
    COUNT,
    DESTINATION,
    END,
    EXIST_OK,
    EXTEND_GROUPS,
    FLOW_STATE,
    GRACE,
    IDLE,
    JOB_STATE,
    MARK,
    MARKED_BY,
    MAX_FLOWS,
    MAX_JOBS,
    MAX_MESSAGES,
    MAX_RECOVERED,
    MAX_REDRIVEN,
    MAX_SWEPT,
    MESSAGE_STATE,
    NEW_VT,
    ORDER_SECONDS,
    REDRIVE_DESTINATION,
    SCHEDULED,
    SILENCE_SECONDS,
    SILENCE_WHY,
    SILENCED_BY,
    SPAN,
    START,
    STEP,
    SUBSCRIBED,
    TIMEOUT,
    VT,
    WAIT,
    WAIT_FOR_END,
    CallArgument,
)
from rsmq.vocabulary.queues import CREATE, LIMIT, POLICY, SET, QueueCall


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
    #: The same of queues to be made, whose names are no patterns; of one queue an object.
    OF_NEW_QUEUES = "of new queues"
    #: The same of other names. One that has not changed gives the exit code 1.
    OF_NAMES = "of names"
    #: The ids of the messages that have changed: one a line; an object with them and the others.
    OF_IDS = "of ids"
    #: Messages that were received: a table; an array. If it can't be written, they are released.
    RECEIVED = "received"
    #: Messages that are deleted with their receive: the same, in steps of a few.
    POPPED = "popped"
    #: Messages as they are stored: the same, with what is stored beside them.
    STORED = "stored"
    #: The attributes of a queue, which options set before: one a line, or those of the phrases in a
    #: sentence; an object.
    ATTRIBUTES = "attributes"


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
        options: its options as the help shows them, beside the arguments of the row.
        of_call: whose options it has too, before these.
        for_all: the call without ids, for the option ``all_of_them``.
        phrases: of attributes, the parts of a sentence with values in braces, each for attributes
            that are set. Then ``otherwise`` is the sentence without them.
        whole: the usage error if some of the values are passed and others are not.
        asks: the question before it removes data, with the contents of the queues in braces. Then
            it has ``--yes``, and ``--undo`` for the call of the same name in ``trash``.
        detail: further sentences of the help.
        examples: examples of calls, one line each.
    """

    summary: str
    outcome: Outcome
    arguments: str = ""
    word: str = ""
    otherwise: str = ""
    options: str = ""
    of_call: QueueCall | None = None
    for_all: str = ""
    phrases: tuple[str, ...] = ()
    whole: str = ""
    asks: str = ""
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
        arguments: those that the program has as options and HTTP as fields, in this order, beside
            the options of sends and the attributes of queues.
        one_call: how the program runs it, if the command is this call.
        why_not: why faces have no such call, if one lacks it.
    """

    name: str
    command: str = ""
    route: str = ""
    user: User = User.ADMINISTRATOR
    further: str = ""
    arguments: tuple[CallArgument, ...] = ()
    one_call: OneCall | None = None
    why_not: str = ""


_OF_PROGRAMS = "the connections of a program"
_FOR_PACKAGES = "for packages that are built on the client"

CALLS: tuple[MethodRow, ...] = (
    MethodRow(
        "create_queue", "create", "PUT /queues/{queue}", arguments=(EXIST_OK,),
        one_call=OneCall(
            "Create queues.",
            Outcome.OF_NEW_QUEUES, "QUEUE...", "created", "exists",
            of_call=CREATE,
            detail="A queue name has 1 to 160 characters of A-Z a-z 0-9 _ -. With --json, one "
            "queue is an object, and several are an array.",
            examples=(
                "rsmq create orders --vt 60", "rsmq create orders orders-dead --exist-ok",
            ),
        ),
    ),
    MethodRow(
        "delete_queue", "delete-queue", "DELETE /queues/{queue}",
        one_call=OneCall(
            "Delete queues with all their messages.",
            Outcome.OF_QUEUES, "QUEUE...", "deleted",
            asks="Delete {contents}, and the queues?",
            detail="Messages that are in flight are deleted too. It asks first, once for all "
            "queues. With --undo nothing is deleted if that could not be undone.",
            examples=("rsmq delete-queue orders", "rsmq delete-queue old older --yes"),
        ),
    ),
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
    MethodRow(
        "set_queue_attributes", "attributes", "PATCH /queues/{queue}",
        one_call=OneCall(
            "Show the attributes of a queue, or set them.",
            Outcome.ATTRIBUTES, "QUEUE",
            of_call=SET,
            detail="With at least one option it sets them, and then shows all attributes. The new "
            "values do not change when hidden messages become visible.",
            examples=("rsmq attributes orders", "rsmq attributes orders --vt 120"),
        ),
    ),
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
    MethodRow(
        "set_queue_limits", "limit", "PUT /queues/{queue}/limits",
        one_call=OneCall(
            "Show, set or remove a queue's limits.",
            Outcome.ATTRIBUTES, "QUEUE", otherwise="no limits",
            of_call=LIMIT,
            options="--remove  Remove the limits.",
            phrases=("at most {max_running:message} in flight", "at most {rate}"),
            detail="A limit that is not named is removed. Workers and all other receives of this "
            "library obey the limits; consumers of other libraries do not.",
            examples=(
                "rsmq limit api", "rsmq limit api --max-running 5 --rate 100/m",
                "rsmq limit api --remove",
            ),
        ),
    ),
    MethodRow(
        "purge_queue", "purge", "POST /queues/{queue}:purge",
        one_call=OneCall(
            "Remove all messages of queues.",
            Outcome.OF_QUEUES, "QUEUE...", "removed",
            asks="Remove {contents}?",
            detail="Messages that are in flight are removed too. The queues, their attributes and "
            "their totals stay. It asks first. With --undo nothing is removed if that could not be "
            "undone.",
            examples=("rsmq purge orders", "rsmq purge orders --yes --undo"),
        ),
    ),
    MethodRow("count_messages", "stats", "GET /queues/{queue}/counts"),
    MethodRow(
        "send_message", "send", "POST /queues/{queue}/messages", User.PRODUCER,
        arguments=(TIMEOUT,),
    ),
    MethodRow(
        "send_messages", "send", "POST /queues/{queue}/messages:batch", User.PRODUCER,
        arguments=(TIMEOUT,),
    ),
    MethodRow("publish", "publish", "POST /publish", User.PRODUCER, arguments=(TIMEOUT,)),
    MethodRow(
        "receive_message", "receive", "POST /receive", User.CONSUMER, arguments=(VT, WAIT)
    ),
    MethodRow(
        "receive_messages", "receive", "POST /receive", User.CONSUMER,
        arguments=(MAX_MESSAGES, VT, WAIT, EXTEND_GROUPS),
        one_call=OneCall(
            "Receive messages and hide them from others.",
            Outcome.RECEIVED, "QUEUE...",
            detail="A message becomes visible again when its visibility timeout ends. rsmq delete "
            "deletes it before, and rsmq visibility extends the timeout. Of several queues the "
            "first has precedence. If the reader of the output closes the pipe, all of them are "
            "released. The exit code is 1 if no message is visible within --wait.",
            examples=(
                "rsmq receive orders", "rsmq receive urgent orders -n 100 --wait 20 --json",
                "rsmq receive images --raw > image",
            ),
        ),
    ),
    MethodRow(
        "consume", user=User.CONSUMER,
        why_not="a loop of receives, which a program makes itself",
    ),
    MethodRow("pop_message", "pop", "POST /pop", User.CONSUMER, arguments=(WAIT,)),
    MethodRow(
        "pop_messages", "pop", "POST /pop", User.CONSUMER, arguments=(MAX_MESSAGES, WAIT),
        one_call=OneCall(
            "Receive messages and delete them at once.",
            Outcome.POPPED, "QUEUE...",
            detail="Delivery is at most once: if the program can't write a popped message, the "
            "message is lost. So it pops ten messages at a time, and writes them before it pops "
            "the next. With rsmq receive no message is lost. Of several queues the first has "
            "precedence. The exit code is 1 if no message is visible within --wait, and if a "
            "message can't be written; the error has the number of these.",
            examples=("rsmq pop orders", "rsmq pop orders -n 100 --raw > lines"),
        ),
    ),
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
            detail="Messages that are in flight are deleted too.",
            examples=("rsmq delete orders ID", "rsmq rm orders ID ID --json"),
        ),
    ),
    MethodRow(
        "change_message_visibility", "visibility", "PATCH /queues/{queue}/messages/{id}",
        User.CONSUMER, arguments=(NEW_VT,),
    ),
    MethodRow(
        "change_messages_visibility", "visibility", "POST /queues/{queue}/messages:visibility",
        User.CONSUMER, arguments=(NEW_VT,),
        one_call=OneCall(
            "Set for how long messages are hidden from now on.",
            Outcome.OF_IDS, "QUEUE ID...", "changed",
            detail="It changes any message, also one that another consumer has received.",
            examples=("rsmq visibility orders ID --vt 600", "rsmq vs orders ID --vt 0"),
        ),
    ),
    MethodRow(
        "release_messages", "release", "POST /queues/{queue}/messages:release", User.CONSUMER,
        one_call=OneCall(
            "Make received messages visible again, in their old places.",
            Outcome.OF_IDS, "QUEUE [ID...]", "released",
            options="--all, all_of_them  Release all messages that are in flight.",
            for_all="release_all_messages",
            detail="It releases the messages of all consumers. If a consumer still processes a "
            "message, another one can receive it at the same time. With an ID it also makes a "
            "delayed message visible; with --all only messages that were received.",
            examples=("rsmq release orders ID ID", "rsmq release orders --all"),
        ),
    ),
    MethodRow("release_all_messages", "release", "POST /queues/{queue}:release-all"),
    MethodRow(
        "recover_messages", "recover", "POST /queues/{queue}/messages:recover",
        arguments=(IDLE, MAX_RECOVERED, VT),
        one_call=OneCall(
            "Receive abandoned messages again.",
            Outcome.RECEIVED, "QUEUE",
            detail="These are messages in flight that were received at least --idle ago. "
            "Their receive counts rise by one, so that the earlier consumers can no longer delete "
            "or extend them. The exit code is 1 if there are none.",
            examples=("rsmq recover orders --idle 3600",),
        ),
    ),
    MethodRow(
        "get_message", "get", "GET /queues/{queue}/messages/{id}", User.CONSUMER,
        one_call=OneCall(
            "Show messages by their ids.",
            Outcome.STORED, "QUEUE ID...",
            detail="Nothing is changed. The lines after a message are those of rsmq peek.",
            examples=("rsmq get orders ID", "rsmq get orders ID --raw > body"),
        ),
    ),
    MethodRow(
        "peek_messages", "peek", "GET /queues/{queue}/messages",
        arguments=(START, COUNT, MESSAGE_STATE),
        one_call=OneCall(
            "Show messages by their positions in the queue.",
            Outcome.STORED, "QUEUE",
            detail="Nothing is changed. Messages are shown in the order in which they become "
            "visible. The line after a dead letter says why a worker has dead-lettered it, the "
            "line after a message that waits for a retry its last error, and the line after one "
            "in flight the worker that has it. On a terminal long bodies are cut off; rsmq get "
            "shows them in full. The exit code is 1 if there are no messages.",
            examples=(
                "rsmq peek orders", "rsmq peek orders --start -10",
                "rsmq peek orders --state in_flight -n 100 --json",
            ),
        ),
    ),
    MethodRow(
        "history", "history", "GET /queues/{queue}/history", further="+hgetall",
        arguments=(BEGIN, END, STEP),
    ),
    MethodRow(
        "mark", "mark", "POST /marks", further="+xadd", arguments=(MARK, MARKED_BY),
        one_call=OneCall(
            "Mark this moment in the charts of the dashboard.",
            Outcome.TEXT, "NAME", "id",
            detail="Use it when you deploy, so that cause and effect are on one picture. NAME has "
            "1 to 128 characters. It prints the id of the entry in the audit stream.",
            examples=("rsmq mark v2.3", "rsmq mark 'v2.3 of the shop' --by ci"),
        ),
    ),
    MethodRow("task_figures", "tasks", "GET /tasks", further="+hgetall", arguments=(SPAN,)),
    MethodRow(
        "set_dead_letter_policy", "dead-letter", "PUT /queues/{queue}/dead-letter-policy",
        one_call=OneCall(
            "Show, set or remove a queue's dead-letter policy.",
            Outcome.ATTRIBUTES, "QUEUE [DEAD_LETTER_QUEUE]", otherwise="no dead-letter policy",
            of_call=POLICY,
            options="--remove  Remove the policy.",
            phrases=("to {dead_letter_queue} after {max_receives:receive}",),
            whole="A policy is a DEAD_LETTER_QUEUE and --max-receives.",
            detail="A message that was received --max-receives times is not delivered again: the "
            "next receive moves it to the DEAD_LETTER_QUEUE, which must exist. Use 3 or more.",
            examples=(
                "rsmq dead-letter orders", "rsmq dead-letter orders orders-dead --max-receives 5",
                "rsmq dead-letter orders --remove",
            ),
        ),
    ),
    MethodRow(
        "sweep_dead_letters", "sweep", "POST /queues/{queue}:sweep", arguments=(MAX_SWEPT,)
    ),
    MethodRow(
        "sweep_expired", "sweep-expired", "POST /queues/{queue}:sweep-expired",
        arguments=(MAX_SWEPT,),
        one_call=OneCall(
            "Remove messages that are expired, or move them to a dead-letter queue.",
            Outcome.TEXTS, "QUEUE",
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
    MethodRow(
        "redrive_messages", "redrive", "POST /queues/{queue}:redrive",
        arguments=(REDRIVE_DESTINATION, MAX_REDRIVEN),
    ),
    MethodRow(
        "move_messages", "move", "POST /queues/{queue}/messages:move", arguments=(DESTINATION,),
        one_call=OneCall(
            "Move messages to another queue.",
            Outcome.OF_IDS, "QUEUE ID...", "moved",
            detail="They keep their ids and counters. Messages that are in flight are moved too.",
            examples=("rsmq move orders ID ID --to invoices",),
        ),
    ),
    MethodRow("job", "job", "GET /queues/{queue}/jobs/{id}"),
    MethodRow("jobs", "jobs", "GET /queues/{queue}/jobs", arguments=(JOB_STATE, MAX_JOBS)),
    MethodRow(
        "wait_for_jobs", "job", "GET /queues/{queue}/jobs/{id}", arguments=(WAIT_FOR_END,)
    ),
    MethodRow("workers.list", "workers", "GET /workers", further="+hgetall"),
    MethodRow("workers.running", "worker", "POST /workers/{worker}:running"),
    MethodRow(
        "workers.pause", "worker", "POST /workers/{worker}:pause", arguments=(ORDER_SECONDS,)
    ),
    MethodRow("workers.resume", "worker", "POST /workers/{worker}:resume"),
    MethodRow(
        "workers.set_concurrency", "worker", "PUT /workers/{worker}/concurrency",
        arguments=(CONCURRENCY, ORDER_SECONDS),
    ),
    MethodRow("workers.stop", "worker", "POST /workers/{worker}:stop", arguments=(GRACE,)),
    MethodRow("flow", "flow", "GET /flows/{flow}", arguments=(WAIT_FOR_END,)),
    MethodRow("flows", "flows", "GET /flows", arguments=(FLOW_STATE, MAX_FLOWS)),
    MethodRow(
        "schedules.add", "schedule add", "PUT /schedules/{schedule}", arguments=SCHEDULED
    ),
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

_OF_HTTP = "for workers in languages without a client; a client has what handlers return"
_OF_SERVERS = "long work of servers, which a program does in batches"
_OF_EXPLAIN = "a report for a person; programs read the counts, the state and the job"
_OF_ALERTS = "alerts are found and sent by servers, not by a program with a client"
_OF_PUSH = "rsmq push sends to them; its Subscribers are a class of rsmq.push"
_OF_DOCTOR = "examine and repair are functions of rsmq.doctor"
_OF_PAGES = "what a page of the dashboard shows"
_OF_RECORDS = "records of servers, for operators"
_PROGRAM = "a program that runs until it is stopped, or has its own functions"

#: The calls of the program and of HTTP that no client has, and why.
FACE_CALLS: tuple[MethodRow, ...] = (
    MethodRow("export", "export", "GET /queues/{queue}/messages:export", why_not=_PROGRAM),
    MethodRow("import", "import", why_not=_PROGRAM),
    MethodRow(
        "preview", route="POST /queues/{queue}/messages:preview", why_not="what a person confirms"
    ),
    MethodRow("tail", "tail", "GET /queues/{queue}/tail", why_not="a loop of peeks"),
    *(
        MethodRow(
            f"outcomes.{each}", route=f"POST /queues/{{queue}}/messages/{{id}}:{each}",
            why_not=_OF_HTTP,
        )
        for each in ("progress", "succeed", "fail", "defer")
    ),
    MethodRow("operations.list", route="GET /operations", why_not=_OF_SERVERS),
    MethodRow("operations.get", route="GET /operations/{operation}", why_not=_OF_SERVERS),
    *(
        MethodRow(
            f"operations.{each}", route=f"POST /operations/{{operation}}:{each}",
            why_not=_OF_SERVERS,
        )
        for each in ("cancel", "pause", "resume")
    ),
    MethodRow("why", "why", "GET /queues/{queue}/why", why_not=_OF_EXPLAIN),
    MethodRow("why.message", "why", "GET /queues/{queue}/messages/{id}/why", why_not=_OF_EXPLAIN),
    MethodRow(
        "timeline", route="GET /queues/{queue}/messages/{id}/timeline", why_not=_OF_PAGES
    ),
    MethodRow(
        "groups", "dead-letters", "GET /queues/{queue}/dead-letters/groups", why_not=_OF_EXPLAIN
    ),
    MethodRow("cancel", "cancel", why_not="a method of the job that job returns"),
    MethodRow("subscribers.list", "subscribers list", "GET /subscribers", why_not=_OF_PUSH),
    MethodRow(
        "subscribers.add", "subscribers add", "PUT /queues/{queue}/subscribers/{subscriber}",
        arguments=SUBSCRIBED, why_not=_OF_PUSH,
    ),
    MethodRow(
        "subscribers.get", route="GET /queues/{queue}/subscribers/{subscriber}", why_not=_OF_PUSH
    ),
    MethodRow(
        "subscribers.remove", "subscribers remove",
        "DELETE /queues/{queue}/subscribers/{subscriber}", why_not=_OF_PUSH,
    ),
    MethodRow("webhooks.list", route="GET /webhooks", why_not=_OF_PUSH),
    MethodRow("webhooks.resume", "push --resume", "POST /webhooks:resume", why_not=_OF_PUSH),
    MethodRow("webhooks.forget", "push --remove", "POST /webhooks:forget", why_not=_OF_PUSH),
    MethodRow("doctor", "doctor", "GET /doctor", why_not=_OF_DOCTOR),
    MethodRow("doctor.repair", "doctor --fix", "POST /doctor:repair", why_not=_OF_DOCTOR),
    MethodRow("workers.report", route="GET /workers/{worker}/running", why_not=_OF_PAGES),
    MethodRow("workers.held", route="GET /workers/{worker}/held", why_not=_OF_PAGES),
    MethodRow(
        "workers.release", route="POST /workers/{worker}:release",
        why_not="release of each message that workers.held names",
    ),
    MethodRow("audit", route="GET /audit", why_not=_OF_RECORDS),
    MethodRow("alerts", route="GET /alerts", why_not=_OF_ALERTS),
    MethodRow("alerts.list", "alerts list", "GET /alert-targets", why_not=_OF_ALERTS),
    MethodRow(
        "alerts.add", "alerts add", "PUT /alert-targets/{target}",
        arguments=(ALERT_URL, ALERT_FORMAT, ALERT_SECRET), why_not=_OF_ALERTS,
    ),
    MethodRow(
        "alerts.remove", "alerts remove", "DELETE /alert-targets/{target}", why_not=_OF_ALERTS
    ),
    MethodRow(
        "alerts.test", "alerts test", "POST /alert-targets/{target}:test", why_not=_OF_ALERTS
    ),
    MethodRow("alerts.silences", "alerts silences", "GET /alert-silences", why_not=_OF_ALERTS),
    MethodRow(
        "alerts.silence", "alerts silence", "PUT /alert-silences/{kind}",
        arguments=(ALERT_SUBJECT, SILENCE_SECONDS, SILENCE_WHY, SILENCED_BY), why_not=_OF_ALERTS,
    ),
    MethodRow(
        "alerts.unsilence", "alerts unsilence", "DELETE /alert-silences/{kind}",
        arguments=(ALERT_SUBJECT,), why_not=_OF_ALERTS,
    ),
    MethodRow("find", route="GET /find", why_not=_OF_PAGES),
    MethodRow("namespaces", route="GET /ns", why_not=_OF_PAGES),
    *(
        MethodRow(each, each, why_not=_PROGRAM)
        for each in (
            "scheduler", "web", "web-user", "top", "exporter", "keys", "sweep-bodies", "migrate",
            "bridge", "rfq", "push", "pipeline", "completion",
        )
    ),
)  # fmt: skip

BY_NAME = {each.name: each for each in (*CALLS, *FACE_CALLS)}


def names_in_errors(name_of: Callable[[CallArgument], str]) -> dict[str, str]:
    """
    Return the names that a face has for arguments, for its errors.

    An argument that has several names there is left out: an error does not say of which call it is.
    """
    names: dict[str, set[str]] = {}
    for argument in (argument for each in BY_NAME.values() for argument in each.arguments):
        names.setdefault(argument.name, set()).add(name_of(argument))
        names[argument.name].discard("")
    return {name: found.pop() for name, found in names.items() if len(found) == 1}
