"""Finds links of a built site that lead nowhere, and parts that are from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes of tags that make a browser load something; of <link> only with these values of rel.
_LOADED = {
    ("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "srcset"), ("link", "href"),
}  # fmt: skip
_NOT_LOADED = {"canonical", "next", "prev", "edit"}
_IMPORT = re.compile(r"(?:@import\s+|url\()['\"]?(?:https?:)?//[^)'\"]+")


class _Page(HTMLParser):
    """
    A parsed page.

    Attributes:
        anchors: the ids of its elements.
        links: the targets on this site of its links, images, scripts and style sheets.
        foreign: the URLs of other hosts that a browser would load.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.foreign: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.anchors.add(value)
            if name not in {"href", "src", "srcset"} or not value:
                continue
            if not urlsplit(value).netloc:
                self.links.append(value)
            elif (tag, name) in _LOADED and values.get("rel") not in _NOT_LOADED:
                self.foreign.append(value)

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.foreign += _IMPORT.findall(data)


def find_faults(site: Path) -> Iterator[str]:
    """
    Find the faults of a site.

    Args:
        site: its folder.

    Yields:
        A line about each fault.
    """
    site = site.resolve()
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path in sorted(site.rglob("*.css")):
        for found in _IMPORT.findall(path.read_text()):
            yield f"{path.relative_to(site)} loads {found}"
    for path, page in pages.items():
        name = path.relative_to(site)
        for url in page.foreign:
            yield f"{name} loads {url}"
        # The links of the page for missing pages begin at the root of a server.
        if name != Path("404.html"):
            for link in _find_broken(path, pages):
                yield f"{name}: there is no {link}"


def _find_broken(path: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    """Find the links of a page that lead to no file, or to no heading of a page."""
    for link in dict.fromkeys(pages[path].links):
        parts = urlsplit(link)
        if parts.scheme:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        anchors = pages[target].anchors if target in pages else set()
        if not target.exists() or (parts.fragment and unquote(parts.fragment) not in anchors):
            yield link
