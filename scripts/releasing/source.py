"""The state of the source of a release: its version, its changelog and its place in git."""

from __future__ import annotations

import re
from pathlib import Path

from .environments import must

#: The contents of the distributions, beside the files that the build adds.
_CONTENTS = ("rsmq", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


def git(root: Path, *arguments: str) -> str:
    """Return the output of a command of git."""
    return must("git", *arguments, cwd=root).strip()


def list_contents(root: Path) -> list[str]:
    """Return the names of the tracked files that the distributions contain."""
    return git(root, "ls-files", *_CONTENTS).splitlines()


def read_version(root: Path) -> str:
    """Return the version of the package."""
    return _find(r'^__version__ = "(.+)"$', root / "rsmq" / "__init__.py")


def check_changelog(root: Path) -> list[str]:
    """Return what is wrong with the changelog, as sentences."""
    version = read_version(root)
    newest = _find(r"^## (\S+)", root / "CHANGELOG.md")
    if newest == version:
        return []
    return [
        f"CHANGELOG.md begins with {newest}, and the version is {version}. Write its changes there."
    ]


def check_place(root: Path) -> list[str]:
    """Return why git's state does not allow a release, as sentences."""
    problems = []
    branch = git(root, "branch", "--show-current")
    if branch != "main":
        problems.append(f"The branch is {branch or 'detached'}. Release from main.")
    if git(root, "status", "--porcelain"):
        problems.append("There are changes that are not committed. Commit or remove them.")
    tag = f"v{read_version(root)}"
    if tag not in git(root, "tag", "--points-at", "HEAD").split():
        elsewhere = git(root, "tag", "--list", tag)
        remedy = "Raise the version." if elsewhere else f"Create it: git tag -a {tag}."
        problems.append(
            f"The tag {tag} is {'at another commit' if elsewhere else 'missing'}. {remedy}"
        )
    return problems


def _find(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} has no line {pattern!r}.")
    return found[1]
