"""
The table of commands: the module, the summary and the aliases of each.

Help and completion read this table, so they import no command; a command is imported when it is
called. A command whose module is missing is not shown and can't be called.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Entry:
    """
    A command.

    Attributes:
        import_path: the module and the name of the click command in it, as in
            ``rsmq.cli.commands.queues:create``.
        summary: its purpose, as the list of commands shows it.
        aliases: its other names.
    """

    import_path: str
    summary: str
    aliases: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module of the command."""
        return self.import_path.partition(":")[0]

    @property
    def attribute(self) -> str:
        """The name of the command in its module."""
        return self.import_path.partition(":")[2]


SECTIONS: dict[str, dict[str, Entry]] = {
    "Queues": {
        "create": Entry("rsmq.cli.commands.queues:create", "Create queues."),
        "list": Entry("rsmq.cli.commands.queues:list_", "List the queues.", ("ls",)),
        "attributes": Entry(
            "rsmq.cli.commands.queues:attributes",
            "Show the attributes of a queue, or set them.",
            ("attr",),
        ),
        "limit": Entry("rsmq.cli.commands.queues:limit", "Show, set or remove a queue's limits."),
        "stats": Entry(
            "rsmq.cli.commands.queues:stats", "Count the messages of queues by state.", ("count",)
        ),
        "pause": Entry(
            "rsmq.cli.commands.queues:pause", "Stop workers from receiving from queues."
        ),
        "resume": Entry(
            "rsmq.cli.commands.queues:resume", "Let workers receive from paused queues again."
        ),
        "purge": Entry("rsmq.cli.commands.queues:purge", "Remove all messages of queues."),
        "delete-queue": Entry(
            "rsmq.cli.commands.queues:delete_queue", "Delete queues with all their messages."
        ),
        "undo": Entry(
            "rsmq.cli.commands.undo:undo", "Restore what was deleted, or list what can be restored."
        ),
    },
    "Messages": {
        "send": Entry(
            "rsmq.cli.commands.send:send",
            "Send messages: arguments, lines of a file, or the standard input.",
            ("sn",),
        ),
        "publish": Entry(
            "rsmq.cli.commands.send:publish", "Send a message to several queues, all or none."
        ),
        "receive": Entry(
            "rsmq.cli.commands.receive:receive",
            "Receive messages and hide them from others.",
            ("rc",),
        ),
        "pop": Entry("rsmq.cli.commands.receive:pop", "Receive messages and delete them at once."),
        "delete": Entry("rsmq.cli.commands.messages:delete", "Delete messages.", ("rm",)),
        "visibility": Entry(
            "rsmq.cli.commands.messages:visibility",
            "Set for how long messages are hidden from now on.",
            ("vs",),
        ),
        "release": Entry(
            "rsmq.cli.commands.messages:release",
            "Make received messages visible again, in their old places.",
        ),
        "recover": Entry("rsmq.cli.commands.receive:recover", "Receive abandoned messages again."),
        "get": Entry("rsmq.cli.commands.messages:get", "Show messages by their ids."),
        "peek": Entry(
            "rsmq.cli.commands.messages:peek", "Show messages by their positions in the queue."
        ),
        "tail": Entry("rsmq.cli.commands.tail:tail", "Show new messages without receiving them."),
        "why": Entry(
            "rsmq.cli.commands.why:why",
            "Say why a message does not move, or why a queue is not drained.",
        ),
    },
    "Jobs": {
        "job": Entry("rsmq.cli.commands.jobs:job", "Show what has become of a tracked message."),
        "jobs": Entry("rsmq.cli.commands.jobs:jobs", "List the tracked messages of a queue."),
        "cancel": Entry(
            "rsmq.cli.commands.jobs:cancel", "Cancel jobs: those that wait, and those that run."
        ),
    },
    "Dead letters": {
        "dead-letter": Entry(
            "rsmq.cli.commands.dead_letters:dead_letter",
            "Show, set or remove a queue's dead-letter policy.",
        ),
        "dead-letters": Entry(
            "rsmq.cli.commands.why:dead_letters",
            "Show the dead letters of a queue in groups of the same cause.",
        ),
        "sweep-expired": Entry(
            "rsmq.cli.commands.dead_letters:sweep_expired",
            "Remove messages that are expired, or move them to a dead-letter queue.",
        ),
        "sweep-groups": Entry(
            "rsmq.cli.commands.dead_letters:sweep_groups",
            "Admit messages of groups whose last message another client has deleted.",
        ),
        "sweep": Entry(
            "rsmq.cli.commands.dead_letters:sweep", "Move messages that were received too often."
        ),
        "redrive": Entry(
            "rsmq.cli.commands.dead_letters:redrive", "Send dead letters again, with new ids."
        ),
        "move": Entry("rsmq.cli.commands.dead_letters:move", "Move messages to another queue."),
    },
    "Schedules": {
        "schedule": Entry(
            "rsmq.cli.commands.schedule:schedule", "Add, list, pause and run schedules."
        ),
        "scheduler": Entry(
            "rsmq.cli.commands.scheduler:scheduler",
            "Send the messages of schedules until stopped.",
        ),
    },
    "Monitoring": {
        "web": Entry("rsmq.cli.commands.web:web", "Serve the queues over HTTP, until stopped."),
        "web-user": Entry(
            "rsmq.cli.commands.web_user:web_user", "Make users and tokens for rsmq web."
        ),
        "top": Entry(
            "rsmq.cli.commands.top:top", "Watch queues: counts, rates and the oldest message."
        ),
        "history": Entry(
            "rsmq.cli.commands.history:history",
            "Show what was sent and received, and how many messages there were.",
        ),
        "exporter": Entry(
            "rsmq.cli.commands.exporter:exporter", "Serve the state of queues to Prometheus."
        ),
        "workers": Entry("rsmq.cli.commands.worker:workers", "Show the workers of the namespace."),
        "doctor": Entry(
            "rsmq.cli.commands.doctor:doctor", "Check the server and queues for faults."
        ),
    },
    "Migration": {
        "migrate": Entry(
            "rsmq.cli.commands.migrate:migrate", "Copy or move queues of another system."
        ),
        "bridge": Entry(
            "rsmq.cli.commands.bridge:bridge",
            "Move new messages from or to another system until stopped.",
        ),
        "export": Entry(
            "rsmq.cli.commands.transfer:export", "Write queues to a file of JSON Lines."
        ),
        "import": Entry(
            "rsmq.cli.commands.transfer:import_", "Add the queues of an export file to Redis."
        ),
        "rfq": Entry("rsmq.cli.commands.rfq:rfq", "Run the commands of rfq on RSMQ queues."),
    },
    "Programs": {
        "push": Entry(
            "rsmq.cli.commands.push:push", "Push the messages of a queue to a URL until stopped."
        ),
        "subscribers": Entry(
            "rsmq.cli.commands.subscribers:subscribers",
            "Add, list and remove the subscribers of queues.",
        ),
        "worker": Entry("rsmq.cli.commands.worker:worker", "Run a worker until it is stopped."),
        "pipeline": Entry("rsmq.cli.commands.pipeline:pipeline", "Run a job on queues with Spark."),
        "completion": Entry(
            "rsmq.cli.commands.completion:completion", "Print the completion script of a shell."
        ),
    },
}

COMMANDS: dict[str, Entry] = {
    name: entry for section in SECTIONS.values() for name, entry in section.items()
}

ALIASES: dict[str, str] = {
    alias: name for name, entry in COMMANDS.items() for alias in entry.aliases
}


#: Terms of other systems and programs, and the commands for them.
OTHER_TERMS: dict[str, tuple[str, ...]] = {
    "ack": ("delete",),
    "acknowledge": ("delete",),
    "abort": ("cancel",),
    "add": ("send", "create"),
    "clear": ("purge",),
    "config": ("attributes",),
    "consume": ("receive", "pop"),
    "cron": ("schedule",),
    "del": ("delete", "delete-queue"),
    "dequeue": ("pop", "receive"),
    "depth": ("stats",),
    "dlq": ("dead-letter", "redrive"),
    "drop": ("delete-queue",),
    "dump": ("export",),
    "enqueue": ("send",),
    "explain": ("why",),
    "extend": ("visibility",),
    "fetch": ("receive",),
    "flush": ("purge",),
    "info": ("attributes", "stats"),
    "len": ("stats",),
    "length": ("stats",),
    "load": ("import",),
    "metrics": ("exporter",),
    "mv": ("move",),
    "nack": ("release",),
    "new": ("create",),
    "produce": ("send",),
    "webhook": ("push", "subscribers"),
    "put": ("send",),
    "queues": ("list",),
    "read": ("receive", "peek"),
    "reject": ("release",),
    "remove": ("delete", "delete-queue"),
    "requeue": ("release", "redrive"),
    "restore": ("undo", "import"),
    "result": ("job",),
    "retry": ("redrive", "release"),
    "revoke": ("cancel",),
    "set": ("attributes",),
    "show": ("peek", "attributes"),
    "size": ("stats",),
    "status": ("stats", "job", "top"),
    "subscribe": ("subscribers",),
    "tasks": ("jobs",),
    "touch": ("visibility",),
    "unsubscribe": ("subscribers",),
    "watch": ("top", "tail"),
}


def is_available(entry: Entry) -> bool:
    """Return whether the module of a command exists."""
    return find_spec(entry.module) is not None
