"""
A check that keys, counters and fields of extensions are spelled only in rsmq/wire and in scripts.

Docstrings, and texts for people (strings with a space), may contain them.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

_SPELLED = re.compile(r":Q$|^QUEUES$|:QUEUES|(?:^|:)x:|^totalrecv$|^totalsent$|:rc$|:fr$")
_PACKAGE = Path(__file__).resolve().parents[2] / "rsmq"


def _strings(tree: ast.AST) -> list[tuple[int, str]]:
    """Return the line and the text of each string and bytes literal that is not a docstring."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    strings = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            value = node.value
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if isinstance(text, str):
                strings.append((node.lineno, text))
    return strings


def spelled(source: str) -> list[tuple[int, str]]:
    """Return the line and the text of each literal that spells a key or a field."""
    return [
        (line, text)
        for line, text in _strings(ast.parse(source))
        if " " not in text and _SPELLED.search(text)
    ]


if __name__ == "__main__":
    faults = [
        f"{path.relative_to(_PACKAGE.parent)}:{line}: {text!r}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        if _PACKAGE / "wire" not in path.parents
        for line, text in spelled(path.read_text())
    ]
    if faults:
        sys.exit("Names of keys and fields belong to rsmq/wire:\n" + "\n".join(faults))
