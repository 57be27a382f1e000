"""
A check that no function of rsmq has more than eight parameters.

Functions of ``PUBLIC`` are called by users, by keyword; so are those that take further options as a
``TypedDict``, by ``**options: Unpack[...]``. Others pass one value, such as a frozen dataclass.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_MOST = 8
_GENERATED = "# Generated from "

PUBLIC = frozenset(
    {
        "rsmq/spark/pipelines/files.py: archive",
        "rsmq/spark/pipelines/files.py: replay",
        "rsmq/spark/pipelines/between.py: transform",
        "rsmq/web/application.py: create_app",
    }
)


def with_many(source: str) -> set[str]:
    """Return the names of the functions of a module that have more than eight parameters."""
    if source.startswith(_GENERATED):
        return set()
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and count(node.args) > _MOST
        and not takes_options(node.args)
    }


def takes_options(arguments: ast.arguments) -> bool:
    """Return whether a function takes options as a ``TypedDict``."""
    annotation = arguments.kwarg.annotation if arguments.kwarg else None
    return isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Unpack"


def count(arguments: ast.arguments) -> int:
    """Return the number of parameters, without the first one of a method."""
    positional = [*arguments.posonlyargs, *arguments.args]
    is_method = bool(positional) and positional[0].arg in {"self", "cls"}
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return len(positional) - is_method + len(arguments.kwonlyargs) + len(rest)


if __name__ == "__main__":
    found = {
        f"{path.relative_to(_ROOT)}: {name}"
        for path in (_ROOT / "rsmq").rglob("*.py")
        for name in with_many(path.read_text())
    }
    if new := sorted(found - PUBLIC):
        sys.exit("More than eight parameters; pass one value instead:\n" + "\n".join(new))
    if superfluous := sorted(PUBLIC - found):
        sys.exit("Take them out of PUBLIC, they need it no longer:\n" + "\n".join(superfluous))
