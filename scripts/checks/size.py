"""
The hand-written lines of code, by folder: ``python -m scripts.checks.size [PATH]``.

A line counts if it has code: no docstring, no comment, no blank line. Generated modules, which say
so in their first line, do not count. Lua scripts are counted apart.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("rsmq", "tests", "scripts", "compat")
_GENERATED = "# Generated from "
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
#: Folders in which scripts/peers installs foreign programs, beside those with a dot.
_FOREIGN = {"node_modules", "vendor"}
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_python(source: str) -> int:
    """Return how many lines of a module have code: none if it is generated."""
    if source.startswith(_GENERATED):
        return 0
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, _WITH_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE and token.start not in docstrings:
            lines.update(range(token.start[0], token.end[0] + 1))
    text = source.splitlines()
    return sum(1 for line in lines if text[line - 1].strip())


def count_lua(source: str) -> int:
    """Return how many lines of a script are neither blank nor a comment."""
    lines = (line.strip() for line in source.splitlines())
    return sum(1 for line in lines if line and not line.startswith("--"))


def measure(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """
    Return the lines of Python and of Lua in a folder.

    Args:
        folder: a folder, or one module.

    Returns:
        For Python, then for Lua: each first-level folder, with a slash at its end, or module, with
        its lines.
    """
    python: Counter[str] = Counter()
    lua: Counter[str] = Counter()
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    for path in paths:
        inner = path.relative_to(folder).parts or (path.name,)
        if any(part in _FOREIGN or part.startswith(".") for part in inner):
            continue
        name = inner[0] + "/" if len(inner) > 1 else inner[0]
        if path.suffix == ".lua":
            lua[name] += count_lua(path.read_text())
        elif path.is_file() and _is_python(path) and (lines := count_python(path.read_text())):
            python[name] += lines
    return python, lua


def _is_python(path: Path) -> bool:
    """Return whether a file is a module, or a program whose first line names Python."""
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as file:
        first = file.readline()
    return first.startswith(b"#!") and b"python" in first


def _show(title: str, counts: Counter[str]) -> None:
    """Print the lines of each folder and module, the largest first, and their sum."""
    print(f"{title}: {counts.total():,}")
    for name, lines in counts.most_common():
        print(f"{lines:10,}  {name}")


if __name__ == "__main__":
    if sys.argv[1:]:
        python, lua = measure(Path(sys.argv[1]))
        _show(f"{sys.argv[1]}, Python", python)
        if lua:
            _show(f"{sys.argv[1]}, Lua", lua)
    else:
        sizes = {part: measure(_ROOT / part) for part in _PARTS}
        _show("rsmq, Python", sizes["rsmq"][0])
        _show("rsmq, Lua", sizes["rsmq"][1])
        for part in _PARTS[1:]:
            python, lua = sizes[part]
            print(f"{part}, Python: {python.total():,}; Lua: {lua.total():,}")
