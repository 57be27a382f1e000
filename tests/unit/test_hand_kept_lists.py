"""No list of options of sends or of attributes of queues is kept by hand without a reason here."""

from __future__ import annotations

import ast
from pathlib import Path

import rsmq
from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES
from rsmq.vocabulary.sends import SEND_OPTIONS

PACKAGE = Path(rsmq.__file__).parent
SENDS = {name for each in SEND_OPTIONS for name in (each.name, f"{each.name}s")}
ATTRIBUTES = {each.name for each in QUEUE_ATTRIBUTES}

#: By module, why it names options or attributes: each is about these, and no further one.
REASONS = {
    "codecs/written.py": "tests/unit/test_stores.py compares it with the table",
    "django/backend_options.py": "options of listeners, which the backend sets itself",
    "doctor/attribute_faults.py": "times, and durations that rsmq_async stores in ms",
    "doctor/operations.py": "durations that rsmq_async stores in ms",
    "doctor/repairer.py": "durations that rsmq_async stores in ms",
    "doctor/server_faults.py": "tests/doctor/test_server.py compares it with the scripts",
    "history/operations.py": "fields from which a queue is known again",
    "migrate/sources/rsmq.py": "durations that rsmq_async stores in ms, and what Node stores",
    "operations/send_options.py": "tests/contract/test_send_options.py sends each pair of options",
    "pyrsmq/cmd/queue_commands.py": "the arguments of PyRSMQ",
    "spark/pipelines/files.py": "the columns of groups, which older archives don't have",
    "tasks/tasks.py": "the options of a map that is sent once",
    "web/pages/views/delayed.py": "titles of options; others have their names",
    "web/pages/views/find.py": "the kinds that the search returns, which have options among them",
    "web/pages/views/queue.py": "tests/web/test_queue_attributes.py compares it with the table",
    "web/routes/messages.py": "tests/web/test_api.py sends each option of a message",
    "web/sqs/sends.py": "the options that SQS has",
    "wire/fields.py": "the fields of Node, which tests/unit/test_queue_attributes.py compares",
}


def _find_names(node):
    """Return the texts of a collection that is written out."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        items = node.elts
    elif isinstance(node, ast.Dict):
        items = [each for each in node.keys if each is not None]
    else:
        return []
    values = [each.value if isinstance(each, ast.Constant) else None for each in items]
    return [each.decode(errors="replace") if isinstance(each, bytes) else each for each in values]


def _has_list(source):
    for node in ast.walk(ast.parse(source)):
        names = _find_names(node)
        for table in (SENDS, ATTRIBUTES):
            found = sum(each in table for each in names)
            if found > 1 and 3 * found >= len(names):
                return True
    return False


def test_each_list_of_options_or_attributes_has_a_reason():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text("utf-8")
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("vocabulary/") and not source.startswith("# Generated from "):
            found |= {name} if _has_list(source) else set()

    assert found == REASONS.keys()
