"""
A check that the map of modules in ARCHITECTURE.md agrees with the tree; --write updates it.

The map has each module with the first paragraph of its docstring.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_FILE = _ROOT / "docs" / "contributing" / "ARCHITECTURE.md"
_BEGIN, _END = "<!-- modules: scripts/checks/module_map.py --write -->", "<!-- end of modules -->"
#: Packages in the order of the map, from the top floor down.
_PACKAGES = (
    "cli/app", "cli/commands", "spark", "spark/pipelines", "metrics", "opentelemetry", "worker",
    "worker/runtime", "migrate", "migrate/sources", "transfer", "doctor", "pyrsmq", "pyrsmq/cmd",
    "push", ".", "cells", "consuming", "waiting", "transport", "transport/topology", "operations",
    "operations/spark", "lua", "wire", "codecs",
)  # fmt: skip


def _first_paragraph(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = " ".join(docstring.partition("\n\n")[0].split())
    return first.replace("``", "`").replace("|", "\\|").removesuffix(".")


def _table(folder: Path, name: str) -> str:
    rows = [
        f"| `{path.name}` | {_first_paragraph(path)} |"
        for path in sorted(folder.glob("*.py"))
        if path.name != "__init__.py" or name == "pyrsmq/cmd"
    ]
    heading = "rsmq/" if name == "." else f"rsmq/{name}/"
    return "\n".join((f"#### `{heading}`\n", "| module | content |", "|---|---|", *rows))


def module_map() -> str:
    """Return the text between the two markers."""
    package = _ROOT / "rsmq"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py")}
    missing = {
        name
        for name in folders - {*_PACKAGES, "cli"}
        if any(path.name != "__init__.py" for path in (package / name).glob("*.py"))
    }
    if missing:
        sys.exit(f"Packages without a place in scripts/checks/module_map.py: {sorted(missing)}")
    return "\n\n".join(_table(package / name, name) for name in _PACKAGES)


if __name__ == "__main__":
    text = _FILE.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    new = f"{before}{_BEGIN}\n\n{module_map()}\n\n{_END}{after}"
    if sys.argv[1:] == ["--write"]:
        _FILE.write_text(new)
    elif new != text:
        sys.exit(
            "The map of modules is not up to date: "
            f"python {Path(__file__).relative_to(_ROOT)} --write"
        )
