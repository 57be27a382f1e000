"""
The doctor: finds and repairs faults of a server and its queues.

    report = examine(queues)
    for finding in report.faults:
        print(finding.queue, finding.code, finding.text)
    repair(queues, report.findings)

``repair`` makes safe repairs: they remove or change no message, no body and no receive count that
Redis can increment. Those of ``Finding.ways`` are made only if the caller names them (``also``).
All other faults are for a person: ``Finding.remedy`` has the commands.

``catalogue.py`` has all faults, and docs/doctor.md shows them as a table.
"""

from typing import TYPE_CHECKING

from rsmq.lazy_exports import export_lazily

if TYPE_CHECKING:
    from rsmq.doctor.examination import examine as examine
    from rsmq.doctor.finding import Finding as Finding
    from rsmq.doctor.finding import Report as Report
    from rsmq.doctor.repairer import Repair as Repair
    from rsmq.doctor.repairer import repair as repair
else:
    # Imported at their first use: the program's completion needs only the catalogue.
    __getattr__, __dir__, __all__ = export_lazily(
        __name__,
        examination=("examine",),
        finding=("Finding", "Report"),
        repairer=("Repair", "repair"),
    )
