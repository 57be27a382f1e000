"""
The table of commands: the module, the summary and the aliases of each.

The help and the completion read this table, so that they import no command; a command is imported
when it is called. One whose module is missing is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Entry:
    """
    A command.

    Attributes:
        where: module and attribute of the click command, as in ``rsmq.cli.commands.queues:create``.
        summary: what it is for, as the list of commands shows it.
        aliases: its other names.
    """

    where: str
    summary: str
    aliases: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that it is in."""
        return self.where.partition(":")[0]

    @property
    def attribute(self) -> str:
        """Its name there."""
        return self.where.partition(":")[2]


SECTIONS: dict[str, dict[str, Entry]] = {
    "Queues": {
        "create": Entry("rsmq.cli.commands.queues:create", "Create a queue."),
        "list": Entry("rsmq.cli.commands.queues:list_", "List the queues.", ("ls",)),
        "attributes": Entry(
            "rsmq.cli.commands.queues:attributes",
            "Show the attributes of a queue, or set them.",
            ("attr",),
        ),
        "stats": Entry(
            "rsmq.cli.commands.queues:stats", "Count the messages of queues by state.", ("count",)
        ),
        "pause": Entry("rsmq.cli.commands.queues:pause", "Let workers leave queues alone."),
        "resume": Entry("rsmq.cli.commands.queues:resume", "Let workers go on with queues."),
        "purge": Entry("rsmq.cli.commands.queues:purge", "Remove all messages of queues."),
        "delete-queue": Entry(
            "rsmq.cli.commands.queues:delete_queue", "Delete queues with all their messages."
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
            "Hide messages for a time from now, or show them.",
            ("vs",),
        ),
        "release": Entry(
            "rsmq.cli.commands.messages:release",
            "Give messages back: visible now, where they stood.",
        ),
        "recover": Entry(
            "rsmq.cli.commands.receive:recover", "Take over messages that were received long ago."
        ),
        "get": Entry("rsmq.cli.commands.messages:get", "Show messages by their ids."),
        "peek": Entry("rsmq.cli.commands.messages:peek", "Show messages by their places."),
        "tail": Entry(
            "rsmq.cli.commands.tail:tail", "Show messages as they come, and leave them alone."
        ),
    },
    "Dead letters": {
        "dead-letter": Entry(
            "rsmq.cli.commands.dead_letters:dead_letter",
            "Show, set or remove a queue's dead-letter policy.",
        ),
        "sweep": Entry("rsmq.cli.commands.dead_letters:sweep", "Move what was received too often."),
        "redrive": Entry("rsmq.cli.commands.dead_letters:redrive", "Send dead letters anew."),
        "move": Entry("rsmq.cli.commands.dead_letters:move", "Move messages to another queue."),
    },
    "Looking on": {
        "top": Entry(
            "rsmq.cli.commands.top:top", "Watch queues: counts, rates and the oldest message."
        ),
        "workers": Entry(
            "rsmq.cli.commands.programs:workers", "Show the workers of the namespace."
        ),
        "doctor": Entry(
            "rsmq.cli.commands.doctor:doctor", "Look for faults of the server and of queues."
        ),
    },
    "Moving over": {
        "migrate": Entry(
            "rsmq.cli.commands.migrate:migrate", "Copy or move queues of another system."
        ),
        "bridge": Entry("rsmq.cli.commands.bridge:bridge", "Move new messages as they come."),
        "export": Entry(
            "rsmq.cli.commands.transfer:export", "Write queues to a file of JSON Lines."
        ),
        "import": Entry("rsmq.cli.commands.transfer:import_", "Read queues from such a file."),
        "rfq": Entry("rsmq.cli.commands.rfq:rfq", "The commands of rfq, on these queues."),
    },
    "Programs": {
        "worker": Entry("rsmq.cli.commands.programs:worker", "Run a worker, as rsmq-worker does."),
        "pipeline": Entry(
            "rsmq.cli.commands.programs:pipeline", "Run a job on Spark, as rsmq-pipeline does."
        ),
        "completion": Entry(
            "rsmq.cli.commands.completion:completion", "Print a script for the shell."
        ),
    },
}

COMMANDS: dict[str, Entry] = {
    name: entry for section in SECTIONS.values() for name, entry in section.items()
}

ALIASES: dict[str, str] = {
    alias: name for name, entry in COMMANDS.items() for alias in entry.aliases
}


def is_there(entry: Entry) -> bool:
    """Whether the module of a command is."""
    return find_spec(entry.module) is not None
