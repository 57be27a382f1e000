"""
A check for phrases that this project does not use, in docstrings, comments and documents.

Code spans and the changelog's entries of released versions are exempt.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

#: The replacement of each phrase.
PHRASES = {
    r"\bfor ever\b": "forever",
    r"(?<!there )\bis no (?!longer|more|other|less)": "is not a",
    r"\bnobody knows\b": "say what is unknown",
    r"\bwho does not\b": "name who",
}
_FAULTS = [(re.compile(phrase, re.IGNORECASE), better) for phrase, better in PHRASES.items()]
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)


def faults(text: str) -> list[str]:
    """Return the excluded phrases of a text, each with its replacement."""
    # A phrase may continue on the next line of a comment.
    plain = " ".join(_CODE.sub(" code ", text).replace("#", " ").replace("--", " ").split())
    return [
        f"{plain[max(found.start() - 20, 0) : found.end() + 20]!r}: {better}"
        for phrase, better in _FAULTS
        for found in phrase.finditer(plain)
    ]


def _python(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node.body[0].lineno, docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text()
    if path.suffix == ".py":
        yield from _python(text)
    elif path.suffix == ".lua":
        for number, line in enumerate(text.splitlines(), 1):
            yield number, line.partition("--")[2]
    elif path.name == "CHANGELOG.md":
        yield 1, text.partition("\n## ")[2].partition("\n## ")[0]
    else:
        yield 1, text


def _files() -> Iterator[Path]:
    folders = ("rsmq", "tests", "compat", "scripts", "docs")
    for path in (*_ROOT.glob("*.md"), *(each for name in folders for each in _files_of(name))):
        if path.suffix in {".py", ".lua", ".md"}:
            yield path


def _files_of(name: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(_ROOT / name):
        # Installed packages are not checked.
        folders[:] = [each for each in folders if each[0] != "." and each != "node_modules"]
        yield from (Path(folder) / each for each in names)


if __name__ == "__main__":
    found = [
        f"{path.relative_to(_ROOT)}:{line}: {fault}"
        for path in sorted(_files())
        for line, text in _texts(path)
        for fault in faults(text)
    ]
    if found:
        sys.exit("\n".join(found))
