"""
Export of queues to files of JSON Lines, and import: for backups, bug reports and tests.

    with files.writing("orders.jsonl.gz") as file:
        export_queues(queues, ["orders"], file)

    with files.reading("orders.jsonl.gz") as file:
        import_queues(other, file, queues={"orders": "orders-of-yesterday"})

``exporting.py`` and ``importing.py`` have the two functions. ``records.py`` and ``lines.py`` define
the format, which compat/EXPORT.md describes for programs in other languages. ``files.py`` opens
files.
"""

from rsmq.transfer.exporting import Exported, ExportedQueue, export_queues
from rsmq.transfer.importing import Imported, ImportedQueue, import_queues

__all__ = [
    "Exported",
    "ExportedQueue",
    "Imported",
    "ImportedQueue",
    "export_queues",
    "import_queues",
]
