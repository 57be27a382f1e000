"""Each page of the documentation has a place in the site: here, so that scripts/check finds it."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.site.interface import PAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = (ROOT / "scripts" / "site" / "mkdocs.yml").read_text()
NAVIGATION = re.findall(r"^ +- (?:[\w ]+: )?(\S+\.md)$", CONFIGURATION, re.MULTILINE)


def test_the_navigation_has_each_page_once():
    written = {f"reference/{title.lower().replace(' ', '-')}.md" for title in PAGES}
    written |= {"reference/commands.md", "reference/metrics.md"}
    found = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    listed = [each for each in NAVIGATION if not each.startswith("repository/")]

    assert sorted(listed) == sorted(found | written)


def test_the_front_page_lists_the_pages_in_the_order_of_the_navigation():
    linked = re.findall(r"^\| \[[^]]+\]\((\S+)\)", (DOCS / "index.md").read_text(), re.MULTILINE)

    assert linked == [
        each
        for each in NAVIGATION
        if not each.startswith(("repository/", "reference/", "contributing/"))
        and each != "index.md"
    ]
