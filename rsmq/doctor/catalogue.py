"""
The catalogue of faults: severity, cause, harm and remedy of each.

The codes are stable. Texts may have these fields of a finding: ``{queue}`` (quoted for a shell),
``{ns}``, ``{number}`` and ``{detail}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: error: messages are lost, stuck or refused; warning: some client fails or misreads data; note:
#: information.
Severity: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A kind of fault.

    Attributes:
        severity: error, warning or note.
        text: the fault, in a sentence.
        cause: the clients or events that cause it.
        harm: its consequences.
        remedy: what the repair changes, or what a person must decide, with the commands for it.
        safe: whether ``repair`` repairs it without an entry in its parameter ``also``.
        ways: the names, for the parameter ``also``, of repairs that are not safe.
    """

    severity: Severity
    text: str
    cause: str
    harm: str
    remedy: str
    safe: bool = False
    ways: tuple[str, ...] = ()


#: Faults of the server.
_SERVER = {
    "eviction": Fault(
        "error",
        "maxmemory-policy is {detail}",
        "the server's configuration",
        "When memory is full, Redis drops keys: whole queues, without an error.",
        "By hand: redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
    ),
    "volatile-eviction": Fault(
        "warning",
        "maxmemory-policy is {detail}",
        "the server's configuration",
        "When memory is full, Redis drops keys that have a time to live: names of sends with "
        "dedup_id, what workers and Spark hold, and queues that expire.",
        "By hand: redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf.",
    ),
    "no-persistence": Fault(
        "warning",
        "Redis saves nothing to disk",
        "the server's configuration: appendonly no, and no save",
        "A restart loses every queue.",
        "By hand: redis-cli CONFIG SET appendonly yes, and the same in redis.conf.",
    ),
    "snapshots-only": Fault(
        "warning",
        "Redis keeps no append-only file, and saves by snapshots if at all",
        "the server's configuration: appendonly no",
        "A crash loses all sends since the last snapshot, and brings back what was deleted.",
        "By hand: redis-cli CONFIG SET appendonly yes, and the same in redis.conf.",
    ),
    "seldom-synced": Fault(
        "note",
        "appendfsync is {detail}",
        "the server's configuration",
        "A crash loses the last seconds of sends and deletes (with no: all since the system last "
        "wrote to disk).",
        "By hand, where nothing may be lost: redis-cli CONFIG SET appendfsync always.",
    ),
    "save-failed": Fault(
        "error",
        "Redis failed to write to disk: {detail}",
        "a full or broken disk, or too little memory to fork",
        "A crash loses what is not on disk; Redis may refuse all writes.",
        "By hand: Redis's log says why.",
    ),
    "old-server": Fault(
        "error",
        "Redis is {detail}",
        "the server's version",
        "This library needs Redis 6.2 or later.",
        "By hand: a newer Redis.",
    ),
    "memory-nearly-full": Fault(
        "warning",
        "memory is {detail} full",
        "the server's configuration, or a queue without consumers",
        "When it is full, Redis refuses sends.",
        "By hand: drain a queue, or raise maxmemory. rsmq top shows the deepest queues.",
    ),
    "replica": Fault(
        "error",
        "this server is a replica",
        "the URL, or a failover",
        "Sends, receives and deletes are refused.",
        "By hand: give the URL of the master.",
    ),
    "replicas-not-required": Fault(
        "note",
        "min-replicas-to-write is 0, and replicas are there: {number}",
        "the server's configuration",
        "A failover loses what was not replicated, and a master that was cut off still accepts "
        "sends that will be lost.",
        "By hand, where that matters: redis-cli CONFIG SET min-replicas-to-write 1.",
    ),
    "no-tracking": Fault(
        "note",
        "the server, or a proxy before it, does not know {detail}",
        "a proxy, a command that was renamed, or memory://",
        "Calls with wait= poll: they wake up later, and cost the server more.",
        "By hand: connect without the proxy, or permit HELLO 3 and CLIENT TRACKING.",
    ),
    "small-tracking-table": Fault(
        "warning",
        "tracking-table-max-keys is {number}",
        "the server's configuration",
        "Calls with wait= that wait for more queues than that, those of all clients together, may "
        "wake up 30 seconds late.",
        "By hand: redis-cli CONFIG SET tracking-table-max-keys 1000000, and the same in "
        "redis.conf.",
    ),
    "no-hash-tag": Fault(
        "error",
        "this is a node of a Redis Cluster, and the namespace {ns} has no hash tag",
        "the namespace",
        "Scripts can't reach all keys of a queue: every call fails. Queues were not examined.",
        "By hand: give a namespace such as {{{ns}}}.",
    ),
    "rights": Fault(
        "note",
        "this user may not use {detail}",
        "ACL rules",
        "Those calls fail for programs that log in as this user.",
        "By hand: ACL SETUSER; docs/security.md lists what each part needs.",
    ),
    "not-looked-at": Fault(
        "note",
        "could not examine: {detail}",
        "ACL rules, a managed Redis or a proxy",
        "Faults of this kind, if there are any, stay unknown.",
        "By hand: run it as a user with more rights, or ask who runs the server.",
    ),
}

#: Faults of a namespace, and of whole queues.
_QUEUES = {
    "old-rust-keys": Fault(
        "note",
        "queues listed in {detail}, without a colon behind the namespace: {number}",
        "rsmq_async 1 to 9 (Rust)",
        "Other clients do not see those queues.",
        "By hand: give Rust programs the namespace '{ns}:', or move the queues with rsmq migrate.",
    ),
    "aside": Fault(
        "warning",
        "messages of {detail} are set aside, on their way to another server",
        "rsmq migrate --move, or rsmq bridge, that runs now or was broken off",
        "No client receives them until it continues.",
        "By hand: run it again, with the same --from, --ns and --url; it continues with them.",
    ),
    "unreadable-worker": Fault(
        "warning",
        "the entry of worker {detail} in the registry can't be read",
        "another program",
        "No list shows it, and no worker takes over its messages before they become visible.",
        "By hand: redis-cli HDEL NS:x:workers NAME; a worker that lives writes it again.",
    ),
    "broken-schedule": Fault(
        "error",
        "the definition of schedule {detail}",
        "another program, or a newer version of this library",
        "Its messages are not sent.",
        "By hand: add it again with rsmq schedule add, or rsmq schedule remove.",
    ),
    "lost-schedule": Fault(
        "error",
        "schedule {detail}",
        "another program that has changed one of the two keys of schedules",
        "Its messages are not sent.",
        "By hand: add it again with rsmq schedule add, or rsmq schedule remove.",
    ),
    "failing-schedule": Fault(
        "warning",
        "schedule {detail}",
        "its queue is missing, or refuses the message",
        "Its messages are not sent while this lasts; the tick is kept.",
        "By hand: create the queue, or correct the schedule; it is tried again by itself.",
    ),
    "wrong-type": Fault(
        "error",
        "{detail}",
        "another program with the same keys, such as galadd/rsmq-go",
        "Calls on the queue fail; Node's sends return an id, and the message is lost.",
        "By hand: check with redis-cli TYPE and rename the key, or use another name or namespace.",
    ),
    "reserved-name": Fault(
        "error",
        "there is a queue called QUEUES",
        "most clients accept the name",
        "Its ids would be stored in the index of queues: sends return an id, and the message is "
        "lost. Node's deleteQueue would delete the index.",
        "By hand: read what is in redis-cli HGETALL {ns}:QUEUES:Q, send it to another queue, then "
        "redis-cli UNLINK {ns}:QUEUES:Q and redis-cli SREM {ns}:QUEUES QUEUES.",
    ),
    "unusable-name": Fault(
        "error",
        "there is a queue whose name this library refuses: {detail}",
        "a program that accepts any name",
        "Its keys may be those in which another queue keeps more than its messages.",
        "By hand: stop what uses it, then for both keys, {ns}:{detail}:Q and {ns}:{detail}, "
        "redis-cli RENAMENX to a name without ':x:' that does not end in ':Q', redis-cli SREM "
        "{ns}:QUEUES for the old name, and rsmq doctor --fix, which lists the new one.",
    ),
    "empty-name": Fault(
        "warning",
        "the list of queues has an empty name",
        "a program that accepts any name",
        "Programs that use list_queues fail on it.",
        "Removes the empty name from the list.",
        safe=True,
    ),
    "expiring": Fault(
        "error",
        "{detail} expires in {number} s",
        "rsmq-rb (Ruby), or EXPIRE by hand",
        "The messages go with the key, without an error.",
        "Removes the time to live.",
        safe=True,
    ),
    "half-queue": Fault(
        "error",
        "the queue lacks {detail}",
        "PyRSMQ's setQueueAttributes on a missing queue; a client that died while it created one",
        "Most clients report that there is no such queue, until a client completes it. Node's "
        "createQueue completes it, but fails with queueExists.",
        "Completes it with the defaults vt 30, delay 0, maxsize 65536, and lists it. "
        "To remove it instead: rsmq delete-queue {queue}.",
        safe=True,
    ),
    "messages-without-queue": Fault(
        "error",
        "fields without any of vt, delay and maxsize: {number}",
        "Node's send beside a delete of the queue; set attributes of some clients",
        "No client receives its messages; a queue created under the name will have them.",
        "Makes it a queue with the defaults, so that they are received. "
        "To remove it instead: rsmq delete-queue {queue}.",
        ways=("messages-without-queue",),
    ),
    "ids-without-queue": Fault(
        "warning",
        "ids without a hash: {number}",
        "deleting a queue with grafana/go-rsmq or rsmq-rb; a hash that was evicted or has expired",
        "A queue created under the name begins with ids that have no body.",
        "Removes the ids.",
        ways=("ids-without-queue",),
    ),
    "unlisted-queue": Fault(
        "warning",
        "the queue is not listed",
        "a client that died while it created it; rsmq-rb; deleting a queue with rsmqCsharp or "
        "ebuckley/rsmq, which leaves it behind",
        "It works, but list_queues, and programs that use it, leave it out.",
        "Lists it. To remove it instead: rsmq delete-queue {queue}.",
        safe=True,
    ),
    "listed-without-queue": Fault(
        "warning",
        "the name is listed, but there is no queue",
        "keys that were removed by hand, have expired or were evicted",
        "Programs that use list_queues fail on it.",
        "Removes the name from the list.",
        safe=True,
    ),
    "left-over-extension": Fault(
        "note",
        "keys of extension data without a queue: {number}",
        "another client's deletion of a queue, which does not know them",
        "They take memory, and a queue created under the name begins with them.",
        "Removes them, but not what a Spark write has staged, which ends by itself.",
        safe=True,
    ),
}

#: Faults of a queue's attributes.
_ATTRIBUTES = {
    "bad-attribute": Fault(
        "warning",
        "{detail}",
        "PyRSMQ and aiorsmq store fractions; clients that check nothing",
        "Go, Java, Rust and C# clients fail on it, and Node reads another number.",
        "Stores the next whole number that every client accepts, or the default if it is not a "
        "number.",
        safe=True,
    ),
    "large-maxsize": Fault(
        "note",
        "maxsize is {detail}",
        "PyRSMQ, whose default is 65565",
        "Some clients refuse to set it; bodies above 65536 can't be sent to other queues.",
        "Stores 65536; then larger bodies are refused.",
        ways=("large-maxsize",),
    ),
    "milliseconds": Fault(
        "warning",
        "{detail} look like milliseconds",
        "rsmq_async 8 and later (Rust)",
        "Other clients read them as seconds: messages are hidden a thousand times too long.",
        "Divides them by 1000, and notes it in the queue, so that no later run divides them again. "
        "Do it when no such Rust program is left, and give vt and delay in each call until then. "
        "Leave them if they are seconds.",
        ways=("milliseconds",),
    ),
    "bad-total": Fault(
        "error",
        "{detail}",
        "a program that wrote over it",
        "With Node, sends are not counted, and receives fail after they have hidden their message. "
        "This library counts on from what is readable of it.",
        "Stores the number of messages in the queue (totalsent), or 0 (totalrecv).",
        safe=True,
    ),
    "negative-total": Fault(
        "warning",
        "{detail}",
        "a program that wrote over it",
        "Programs that compute rates from it show nonsense; some clients refuse to read it.",
        "Stores the number of messages in the queue (totalsent), or 0 (totalrecv).",
        safe=True,
    ),
    "strange-time": Fault(
        "warning",
        "{detail}",
        "ebuckley/rsmq (RFC 3339 text), semihbkgr/go-rsmq (ms), rsmqx (none)",
        "Other clients show a wrong date or fail.",
        "Stores Unix seconds; the time of the repair where there was none. Where created changes, "
        "names of sends with dedup_id are forgotten.",
        safe=True,
    ),
    "modified-in-future": Fault(
        "warning",
        "modified is {detail} s later than now",
        "the server's clock was set back; a program that wrote over it",
        "Other clients show a wrong date.",
        "Stores the time of the repair.",
        safe=True,
    ),
    "created-in-future": Fault(
        "warning",
        "created is {detail} s later than now",
        "the server's clock was set back; a program that wrote over it",
        "Other clients show a wrong date.",
        "Stores the time of the repair. Names of sends with dedup_id and the record of a copy "
        "(rsmq migrate --copy) are forgotten: another copy copies all again.",
        ways=("created-in-future",),
    ),
    "bad-policy": Fault(
        "error",
        "{detail}",
        "a program that wrote half of it",
        "No message becomes a dead letter.",
        "By hand: rsmq dead-letter {queue} says how to set or remove it.",
    ),
    "dead-letter-gone": Fault(
        "error",
        "the dead-letter queue {detail} does not exist",
        "its deletion",
        "Messages that were received too often are delivered again and again.",
        "Creates it with the defaults. "
        "To remove the policy instead: rsmq dead-letter {queue} --remove.",
        ways=("dead-letter-gone",),
    ),
    "dead-letter-cycle": Fault(
        "warning",
        "dead letters circulate: {detail}",
        "policies that were set one after the other",
        "A message that no consumer can handle is moved forever.",
        "By hand: remove one of the policies, as with rsmq dead-letter {queue} --remove.",
    ),
}

#: Faults of messages.
_MESSAGES = {
    "attribute-id": Fault(
        "error",
        "ids that are names of the queue's attributes: {number}",
        "a program that wrote over it",
        "Node and others deliver the attribute as a message; deleting it destroys the queue.",
        "Removes the ids; the attributes stay.",
        safe=True,
    ),
    "ghost": Fault(
        "warning",
        "ids without a body: {number}",
        "deleting a queue with grafana/go-rsmq or rsmq-rb, and creating it again; a torn "
        "transaction after a crash; a client without MULTI that died",
        "Node and others deliver null again and again; rsmq_async 16 and later stops forever.",
        "Removes them, with their counters.",
        safe=True,
    ),
    "orphan-body": Fault(
        "warning",
        "bodies without an id in the queue: {number}",
        "deleting messages with ebuckley/rsmq or rsmq-rb; a send into a sorted set of the wrong "
        "type; a sorted set that was lost",
        "No client receives them, and they take memory.",
        "orphan-body:restore makes them messages again, in their groups (also those that such a "
        "client has deleted); orphan-body:remove removes them forever.",
        ways=("orphan-body:restore", "orphan-body:remove"),
    ),
    "left-over-counter": Fault(
        "warning",
        "counters without id and body: {number}",
        "deleting messages with rsmq-rust or rsmq-rb; apalis-rsmq's :meta after another client's "
        "delete",
        "They take memory.",
        "Removes them.",
        safe=True,
    ),
    "bad-counter": Fault(
        "error",
        "messages whose receive count or first-received time is not a number: {number}",
        "a program that wrote over it",
        "With Node the message is hidden again and again, and never delivered. This library counts "
        "on from what is readable of it.",
        "Stores a receive count of 1, and the time of the repair.",
        safe=True,
    ),
    "count-without-time": Fault(
        "note",
        "messages with a receive count and no time of the first receive, or the reverse: {number}",
        "rsmq-rb; a pop that was cut off",
        "Node answers 0; PyRSMQ, Java, Go and Rust clients fail.",
        "Stores the time of the repair, or removes the time of a message without a count.",
        safe=True,
    ),
    "odd-first-received": Fault(
        "note",
        "times of a first receive in seconds or microseconds: {number}",
        "rsmq_async 7, and 16 and later with break-js-comp",
        "Other clients show a wrong date.",
        "Makes them milliseconds.",
        safe=True,
    ),
    "first-received-in-future": Fault(
        "note",
        "times of a first receive that are later than now: {number}",
        "the server's clock was set back; a client with a clock of its own that is ahead",
        "Other clients show a wrong date.",
        "Stores the time of the repair.",
        safe=True,
    ),
    "undeletable-id": Fault(
        "warning",
        "ids that Node can't delete: {number}",
        "rsmq_async 1 to 15, ebuckley/rsmq, rsmq-rb, PyRSMQ 0.3, Node 0.2.1",
        "Node and PHP receive these messages, and can neither delete nor hide them.",
        "Gives them new ids, when they are not in flight; an old id that a program stored "
        "is not found any more.",
        ways=("undeletable-id",),
    ),
    "microseconds-score": Fault(
        "error",
        "scores in microseconds: {number}",
        "rsmq_async 16 and later with break-js-comp",
        "No other client ever sees these messages as due.",
        "Makes them milliseconds; do it when that program is stopped.",
        ways=("microseconds-score",),
    ),
    "seconds-score": Fault(
        "error",
        "scores in seconds: {number}",
        "rsmq_async 7 and rsmq-rb",
        "Other clients see these messages as always due, also while they are in flight.",
        "Makes them milliseconds; do it when that program is stopped.",
        ways=("seconds-score",),
    ),
    "far-future": Fault(
        "error",
        "messages hidden for more than 9999999 s: {number}",
        "clients that check no numbers; a score of inf; a server's clock that was ahead",
        "No client will receive them.",
        "Makes them visible now.",
        ways=("far-future",),
    ),
    "sent-in-future": Fault(
        "error",
        "messages that are hidden because they were sent later than it is now: {number}",
        "the server's clock was set back; a client with a clock of its own that is ahead",
        "No client receives them until the server's clock has caught up.",
        "Makes them visible now; of a queue that has a delay, when that has passed. Messages with "
        "a delay of their own, and those that were received, stay as they are.",
        ways=("sent-in-future",),
    ),
    "wrong-group-key": Fault(
        "error",
        "{detail}",
        "another program with the same keys",
        "Sends with a group or a limit key fail, and messages stay held back for up to a day.",
        "Removes the key, and stores again what the other keys of groups say, as rsmq sweep-groups "
        "{queue} does.",
        ways=("wrong-group-key",),
    ),
    "lost-group-record": Fault(
        "error",
        "messages of groups of which a record is lost: {number}",
        "a key with x: that was deleted, evicted or not restored",
        "They stay held back for up to a day, or are received out of order.",
        "Stores the records again from those that are left, as rsmq sweep-groups {queue} does.",
        safe=True,
    ),
    "lost-group": Fault(
        "error",
        "messages that are held back, and whose groups are lost: {number}",
        "keys with x: that were deleted, evicted or not restored",
        "They are hidden for a day from their send.",
        "Makes them visible, in the order of their sends. One of 3,844 messages without a group "
        "that were sent with a delay of a day looks like them.",
        ways=("lost-group",),
    ),
    "waiting-group": Fault(
        "warning",
        "groups that wait without need: {number}",
        "a Node or PHP client that deleted the message in front, while no worker of this library "
        "listens",
        "Their messages stay held back until the next send to the group, or for up to a day.",
        "Makes the next message of each due, as rsmq sweep-groups {queue} does.",
        safe=True,
    ),
    "far-turn": Fault(
        "warning",
        "turns of a rate that are later than any message explains: {number}",
        "the server's clock was ahead when messages were sent; messages that were deleted before "
        "their time",
        "The next message of each of these groups and limit keys waits until its turn.",
        "Puts each turn behind the last message of the queue, or now.",
        safe=True,
    ),
    "odd-field": Fault(
        "note",
        "fields that no known client writes: {number}",
        "a program that keeps its own data in the queue's hash",
        "None, while RSMQ's clients ignore them; purge_queue removes them.",
        "By hand, if no program needs them: redis-cli HDEL.",
    ),
}

FAULTS: dict[str, Fault] = {**_SERVER, **_QUEUES, **_ATTRIBUTES, **_MESSAGES}

#: The code of each repair that is not safe, by the repair's name for the parameter ``also``.
OPT_IN_REPAIRS: dict[str, str] = {way: code for code, fault in FAULTS.items() for way in fault.ways}
