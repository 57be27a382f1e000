"""
Copies the pages of the documentation for the builders, which read one folder only.

A page of ``docs/`` keeps its place. A file of the repository that a page links to gets a page below
``repository/``, with the links in it followed too. A file that is not Markdown is shown as code.
A link whose text is the name of a page gets the title of the page. The search finds no design pages
and no changelog, whose many words would hide the pages for users.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Files that browsers show.
IMAGES = {".png", ".svg"}
#: The start of pages that the search leaves out, and their places.
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_UNSEARCHED = ("contributing/", "repository/CHANGELOG.md")
#: The languages of files without a telling suffix.
_LANGUAGES = {"Dockerfile": "docker", ".alloy": "text", ".service": "ini"}
#: A block of code, code inside a line, or a link: its text if that is a name, and its target.
_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|(\[[\w./-]+\.md)?\]\((?!\w+:|#)([^)#\s]+)", re.MULTILINE | re.DOTALL
)


def page_of(path: Path) -> Path:
    """
    Return the place of a file of the repository in the folder of the builders.

    Args:
        path: the file, absolute.
    """
    place = (
        path.relative_to(DOCS)
        if path.is_relative_to(DOCS)
        else Path("repository", path.relative_to(ROOT))
    )
    if path.suffix in IMAGES | {".md"}:
        return place
    return place.with_name(f"{place.name.lower().replace('.', '-').replace('@', '')}.md")


def copy_pages(folder: Path) -> None:
    """
    Copy all pages of ``docs/``, and the files that they link to.

    Args:
        folder: an empty folder.

    Raises:
        FileNotFoundError: a link leads to no file.
    """
    left = sorted(DOCS.rglob("*.md"))
    found = set(left)
    while left:
        path = left.pop()
        target = folder / page_of(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in IMAGES:
            shutil.copyfile(path, target)
            continue
        if path.suffix != ".md":
            target.write_text(_show_code(path))
            continue
        text, linked = _follow_links(path)
        is_left_out = page_of(path).as_posix().startswith(_UNSEARCHED)
        target.write_text(_NOT_SEARCHED * is_left_out + text)
        left += linked - found
        found |= linked


def _show_code(path: Path) -> str:
    """Return a page with the text of a file."""
    language = _LANGUAGES.get(path.name) or _LANGUAGES.get(path.suffix) or path.suffix[1:]
    return f"# {path.name}\n\n`{path.relative_to(ROOT)}`\n\n```{language}\n{path.read_text()}```\n"


def _follow_links(path: Path) -> tuple[str, set[Path]]:
    """Return a page with links to the pages of the site, and the files that they lead to."""
    linked: set[Path] = set()
    folder = page_of(path).parent

    def replace(found: re.Match[str]) -> str:
        if not found[2]:
            return found[0]
        target = Path(os.path.normpath(path.parent / found[2]))
        linked.add(target)
        text = f"[{_read_title(target)}" if found[1] else ""
        return f"{text}]({os.path.relpath(page_of(target), folder)}"

    return _LINK.sub(replace, path.read_text()), linked


def _read_title(page: Path) -> str:
    """Return the heading of a page."""
    return page.read_text().partition("\n")[0].removeprefix("# ")
