"""
A check that the name of a class is used once in rsmq, so that a search finds one class.

A package may export a class under a shorter name: ``rsmq.migrate.Report`` is ``MigrationReport``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2] / "rsmq"


def repeated(sources: dict[str, str]) -> dict[str, list[str]]:
    """
    Return the classes whose name is used more than once, with their modules.

    Args:
        sources: the text of each module.
    """
    modules: dict[str, list[str]] = {}
    for name, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(name)
    return {name: found for name, found in modules.items() if len(found) > 1}


if __name__ == "__main__":
    faults = repeated(
        {
            str(path.relative_to(_PACKAGE.parent)): path.read_text()
            for path in sorted(_PACKAGE.rglob("*.py"))
            if path.parts[-3:-1] != ("management", "commands")  # Django demands the name Command
        }
    )
    if faults:
        sys.exit(
            "Classes of the same name; give one of them a longer name:\n"
            + "\n".join(f"{name}: {', '.join(found)}" for name, found in sorted(faults.items()))
        )
