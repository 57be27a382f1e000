"""
The doctor: finds and repairs faults of a server and its queues.

    report = examine(queues)
    for finding in report.faults:
        print(finding.queue, finding.code, finding.text)
    repair(queues, report.findings)

``repair`` makes safe repairs: they remove or change no message, no body and no receive count that
Redis can increment. Repairs marked "asked for" are made only if the caller names them (``also``).
Faults marked "by hand" are for a person: ``Finding.remedy`` has the commands. E is an error
(messages are lost, stuck or refused), W a warning (some client fails or misreads data), N a note.

    of the server
    eviction                E  by hand
    volatile-eviction       W  by hand
    no-persistence          W  by hand
    snapshots-only          W  by hand
    seldom-synced           N  by hand
    save-failed             E  by hand
    old-server              E  by hand
    memory-nearly-full      W  by hand
    replica                 E  by hand
    replicas-not-required   N  by hand
    no-tracking             N  by hand
    small-tracking-table    W  by hand
    no-hash-tag             E  by hand
    rights                  N  by hand
    not-looked-at           N  by hand

    of a namespace and of whole queues
    old-rust-keys           N  by hand
    aside                   W  by hand
    wrong-type              E  by hand
    reserved-name           E  by hand
    unusable-name           E  by hand
    empty-name              W  safe: removed from the list
    expiring                E  safe: the time to live is removed
    half-queue              E  safe: completed with defaults, and listed
    messages-without-queue  E  asked for: becomes a queue with the defaults
    ids-without-queue       W  asked for: the ids are removed
    unlisted-queue          W  safe: listed
    listed-without-queue    W  safe: removed from the list
    left-over-extension     N  safe: removed, except what Spark has staged

    of attributes
    bad-attribute           W  safe: a whole number within the limits, or the default
    large-maxsize           N  asked for: 65536
    milliseconds            W  asked for: divided by 1000, once only (N below ten thousand)
    bad-total               E  safe: the number of ids (totalsent), or 0 (totalrecv)
    negative-total          W  safe: the number of ids (totalsent), or 0 (totalrecv)
    strange-time            W  safe: Unix seconds
    modified-in-future      W  safe: the time of the repair
    created-in-future       W  asked for: the time of the repair
    bad-policy              E  by hand
    dead-letter-gone        E  asked for: the queue is created
    dead-letter-cycle       W  by hand

    of messages
    attribute-id            E  safe: the id is removed, the attribute stays
    ghost                   W  safe: removed, ten seconds after it was due or sent
    orphan-body             W  asked for: orphan-body:restore or orphan-body:remove
    left-over-counter       W  safe: removed
    bad-counter             E  safe: 1, and the time of the repair
    count-without-time      N  safe: the time of the repair
    odd-first-received      N  safe: milliseconds
    first-received-in-future  N  safe: the time of the repair
    undeletable-id          W  asked for: a new id, unless the message is in flight
    microseconds-score      E  asked for: milliseconds
    seconds-score           E  asked for: milliseconds
    far-future              E  asked for: visible now
    sent-in-future          E  asked for: visible now, or after the queue's delay
    odd-field               N  by hand

    of a set of cells (``examine_cells``, ``repair_cells``)
    cell-unreachable        E  by hand
    other-set               E  by hand
    no-cell-record          N  safe: stored
    missing-in-cells        E  safe: created with the attributes of the first cell that has it
    different-attributes    W  safe: those of the first cell that has the queue
    different-policy        W  safe: that of the first cell that has the queue
    paused-in-some-cells    W  by hand
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsmq.doctor.cell_examination import examine_cells as examine_cells
    from rsmq.doctor.cell_repairs import repair_cells as repair_cells
    from rsmq.doctor.examination import examine as examine
    from rsmq.doctor.finding import Finding as Finding
    from rsmq.doctor.finding import Report as Report
    from rsmq.doctor.repairer import Repair as Repair
    from rsmq.doctor.repairer import repair as repair
else:
    # Imported at their first use: the program's completion needs only the catalogue.
    _MODULES = {
        "Finding": "rsmq.doctor.finding",
        "Repair": "rsmq.doctor.repairer",
        "Report": "rsmq.doctor.finding",
        "examine": "rsmq.doctor.examination",
        "examine_cells": "rsmq.doctor.cell_examination",
        "repair": "rsmq.doctor.repairer",
        "repair_cells": "rsmq.doctor.cell_repairs",
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'rsmq.doctor' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})
