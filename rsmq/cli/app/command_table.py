"""
The table of commands: the module, the summary and the aliases of each.

Help and completion read this table, so they import no command; a command is imported when it is
called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from rsmq.vocabulary.calls import CALLS


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

    def load(self) -> Any:
        """Return the click command."""
        return resolve_name(self.import_path)


#: The sections of the help: each command with its aliases, its place below rsmq.cli.commands, and
#: its summary; one that is one call of the client has them in the table of calls.
_TABLE = """
Queues
    create
    list, ls
    attributes, attr
    limit
    stats, count  queues:stats  Count the messages of queues by state.
    pause
    resume
    purge
    delete-queue
    undo  undo:undo  Restore what was deleted, or list what can be restored.
Messages
    send, sn  send:send  Send messages: arguments, lines of a file, or the standard input.
    publish  send:publish  Send a message to several queues, all or none.
    receive, rc
    pop
    delete, rm
    visibility, vs
    release
    recover
    get
    peek
    tail  tail:tail  Show new messages without receiving them.
    why  why:why  Say why a message does not move, or why a queue is not drained.
Jobs
    job  jobs:job  Show what has become of a tracked message.
    jobs  jobs:jobs  List the tracked messages of a queue.
    flow  flows:flow  Show what has become of a flow of tasks, and cancel it.
    flows  flows:flows  List the flows of tasks that were sent last.
    cancel  jobs:cancel  Cancel jobs: those that wait, and those that run.
Dead letters
    dead-letter
    dead-letters  why:dead_letters  Show the dead letters of a queue in groups of the same cause.
    sweep-expired
    sweep-groups
    sweep  dead_letters:sweep  Move messages that were received too often.
    redrive  dead_letters:redrive  Send dead letters again, with new ids.
    move
Schedules
    schedule  schedule:schedule  Add, list, pause and run schedules.
    scheduler  scheduler:scheduler  Send the messages of schedules until stopped.
Monitoring
    web  web:web  Serve the queues over HTTP, until stopped.
    web-user  web_user:web_user  Make users and tokens for rsmq web.
    alerts  alerts:alerts  Send alerts to a webhook, to Slack or to PagerDuty.
    top  top:top  Watch queues: counts, rates and the oldest message.
    tasks  tasks:tasks  Show how the calls of each task went.
    mark
    history  history:history  Show what was sent and received, and how many messages there were.
    exporter  exporter:exporter  Serve the state of queues to Prometheus.
    workers  worker:workers  Show the workers of the namespace.
    doctor  doctor:doctor  Check the server and queues for faults.
    keys  keys:keys  Count the messages that each key has encrypted.
    sweep-bodies  sweep_bodies:sweep_bodies  Delete stored bodies that no message has.
Migration
    migrate  migrate:migrate  Copy or move queues of another system.
    bridge  bridge:bridge  Move new messages from or to another system until stopped.
    export  transfer:export  Write queues to a file of JSON Lines.
    import  transfer:import_  Add the queues of an export file to Redis.
    rfq  rfq:rfq  Run the commands of rfq on RSMQ queues.
Programs
    push  push:push  Push the messages of a queue to a URL until stopped.
    subscribers  subscribers:subscribers  Add, list and remove the subscribers of queues.
    worker  worker:worker  Run a worker until it is stopped.
    pipeline  pipeline:pipeline  Run a job on queues with Spark.
    completion  completion:completion  Print the completion script of a shell.
"""

#: Terms of other systems and programs, and the commands for them.
_TERMS = """
ack: delete; acknowledge: delete; abort: cancel; add: send, create; clear: purge; config:
attributes; consume: receive, pop; cron: schedule; del: delete, delete-queue; dequeue: pop, receive;
depth: stats; dlq: dead-letter, redrive; drop: delete-queue; dump: export; enqueue: send; explain:
why; extend: visibility; fetch: receive; flush: purge; info: attributes, stats; len: stats; length:
stats; load: import; metrics: exporter; mv: move; nack: release; new: create; produce: send;
webhook: push, subscribers; put: send; queues: list; read: receive, peek; reject: release; remove:
delete, delete-queue; requeue: release, redrive; restore: undo, import; result: job; retry: redrive,
release; revoke: cancel; set: attributes; show: peek, attributes; size: stats; status: stats, job,
top; subscribe: subscribers; touch: visibility; unsubscribe: subscribers; watch: top,
tail
"""


def _read_table() -> Iterator[tuple[str, str, Entry]]:
    """Yield the section, the name and the entry of each command."""
    section = ""
    rows = {each.command: each for each in CALLS if each.one_call}
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            section = line
            continue
        names, *own = re.split("  +", line.strip())
        name, *aliases = names.split(", ")
        if not own and (row := rows[name]).one_call:
            own = [f"calls:{row.name}", row.one_call.summary]
        place, summary = own
        yield section, name, Entry(f"rsmq.cli.commands.{place}", summary, tuple(aliases))


COMMANDS: dict[str, Entry] = {}
SECTIONS: dict[str, dict[str, Entry]] = {}
for _section, _name, _entry in _read_table():
    COMMANDS[_name] = SECTIONS.setdefault(_section, {})[_name] = _entry
ALIASES: dict[str, str] = {
    alias: name for name, entry in COMMANDS.items() for alias in entry.aliases
}
OTHER_TERMS: dict[str, tuple[str, ...]] = {
    term: tuple(commands.split(", "))
    for term, commands in re.findall(r"(\S+): ([^;]+)", " ".join(_TERMS.split()))
}
