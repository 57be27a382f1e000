"""
Fails on words that this project does not use.

Phrases, in docstrings, comments, documents, and texts of the library: code spans and the
changelog's entries of released versions are exempt. Names, of functions, classes, parameters,
variables and attributes: those that are public already are listed below.
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

#: A better wording for each phrase.
PHRASES = {
    r"\bfor ever\b": "forever",
    r"(?<!there )\bis no (?!longer|more|other|less)": "is not a",
    r"\bnobody knows\b": "say what is unknown",
    r"\bwho does not\b": "name who",
    r"\bwhat it\b": "name the thing",
    r"(?:^|(?<=[.:;] ))(?-i:What|Who|Whoever|That which) [^?.]*\.(?= |$)": "begin with the subject",
    r"\b(?:is|are|was|were|be) told\b": "receives, is passed, or reports",
    r"\btells? of\b": "reports",
    r"\b(?:goes|went|go) on\b": "continues",
    r"\b(?:somebody|nobody|whoever)\b": "name the client, the process or the user",
    r"\b(?:giv(?:e|es|en|ing)|gave) back\b": "release, or return",
    r"\bcom(?:e|es|ing) back\b": "is received again, or returns",
    r"\blet(?:s|ting)? go\b": "release, or abandon",
    r"\bstands\b(?! for)": "is stored",
    r"\bin vain\b": "without a result",
    r"\banew\b": "again",
}

#: Names that say nothing about the value or the function.
NAMES = {"given", "known", "nobody", "said", "says", "some", "somebody", "tell", "told"}
#: Of these the ones that were public before the rule, by file.
PUBLIC_NAMES = {
    "rsmq/errors.py": {"says"},
    "rsmq/migrate/bridge.py": {"tell"},
    "rsmq/migrate/copier.py": {"tell"},
    "rsmq/migrate/mover.py": {"tell"},
    "rsmq/migrate/verification.py": {"tell"},
    "rsmq/migrate/sources/base.py": {"given"},
    "rsmq/migrate/sources/redisrq.py": {"given"},
    "rsmq/spark/pipelines/archive.py": {"tell"},
    "rsmq/spark/pipelines/drain.py": {"tell"},
    "rsmq/spark/pipelines/migrate.py": {"tell"},
    "rsmq/spark/pipelines/redrive.py": {"tell"},
    "rsmq/spark/pipelines/replay.py": {"tell"},
    "rsmq/spark/pipelines/report.py": {"tell"},
    "rsmq/spark/pipelines/transform.py": {"tell"},
    "rsmq/transfer/exporting.py": {"tell"},
}
_FAULTS = [(re.compile(phrase, re.IGNORECASE), better) for phrase, better in PHRASES.items()]
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)


def phrase_faults(text: str) -> list[str]:
    """Return the forbidden phrases of a text, each with a better one."""
    # A phrase may run over the end of a line; spans keep their length, so that lines do too.
    plain = " ".join(_CODE.sub(" code ", text).replace("#", " ").replace("--", " ").split())
    return [
        f"{plain[max(found.start() - 20, 0) : found.end() + 20]!r}: {better}"
        for phrase, better in _FAULTS
        for found in phrase.finditer(plain)
    ]


def name_faults(
    text: str, public: frozenset[str] | set[str] = frozenset()
) -> list[tuple[int, str]]:
    """Return the line and the name of each definition with a forbidden name."""
    found = []
    for node in ast.walk(ast.parse(text)):
        name = None
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        if name is not None and name.strip("_").lower() in NAMES and name not in public:
            found.append((node.lineno, name))  # type: ignore[attr-defined]
    return found


def _python(text: str, *, has_texts: bool) -> Iterator[tuple[int, str]]:
    texts = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and has_texts:
            texts += [(node.lineno, node.value)] * (" " in node.value)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node.body[0].lineno, docstring
    yield from texts
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text()
    if path.suffix == ".py":
        yield from _python(text, has_texts=_ROOT / "rsmq" in path.parents)
    elif path.suffix == ".lua":
        for number, line in enumerate(text.splitlines(), 1):
            yield number, line.partition("--")[2]
    elif path.name == "CHANGELOG.md":
        yield 1, text.partition("\n## ")[2].partition("\n## ")[0]
    else:
        # Headings may be questions.
        yield 1, re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


def _files() -> Iterator[Path]:
    folders = ("rsmq", "tests", "compat", "scripts", "docs")
    for path in (*_ROOT.glob("*.md"), *(each for name in folders for each in _files_of(name))):
        if path.suffix in {".py", ".lua", ".md"}:
            yield path


def _files_of(name: str) -> Iterator[Path]:
    for folder, folders, names in os.walk(_ROOT / name):
        # Not what was installed there.
        folders[:] = [each for each in folders if each[0] != "." and each != "node_modules"]
        yield from (Path(folder) / each for each in names)


def _faults() -> Iterator[str]:
    for path in sorted(_files()):
        name = path.relative_to(_ROOT).as_posix()
        for line, text in _texts(path):
            yield from (f"{name}:{line}: {fault}" for fault in phrase_faults(text))
        if path.suffix == ".py":
            for line, bad in name_faults(path.read_text(), PUBLIC_NAMES.get(name, set())):
                yield f"{name}:{line}: the name {bad!r} says nothing about the value"


if __name__ == "__main__":
    found = list(_faults())
    if found:
        sys.exit("\n".join(found))
