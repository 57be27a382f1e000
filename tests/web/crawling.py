"""A crawler of pages: it follows every link, without a browser."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

from rsmq.web.fields import Refused
from rsmq.web.pages.views import PAGES
from rsmq.web.router import PathRouter

_ROUTER = PathRouter(PAGES)
#: Attributes that a browser loads, or a person follows.
_ATTRIBUTES = {"href", "src"}
#: Characters of values that are few, so that each value is another view.
_MAX_VALUE = 12


class _Links(HTMLParser):
    """The links of a page, and what its forms ask for that change nothing."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self._action, self._fields = None, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        self.found += [values[name] for name in _ATTRIBUTES & values.keys()]
        if tag == "form" and values.get("method", "get").lower() == "get":
            self._action, self._fields = values.get("action", ""), []
        elif self._action is None:
            return
        elif tag == "input" and values.get("type") not in {"checkbox", "radio"}:
            self._fields.append((values.get("name", ""), values.get("value", "")))
        elif tag == "button" and "disabled" not in values:
            self._submit([(values["name"], values["value"])] if "name" in values else [])

    def handle_endtag(self, tag):
        if tag == "form":
            self._action = None

    def _submit(self, button):
        fields = [(name, value) for name, value in self._fields if name]
        self.found.append(f"{self._action}?{urlencode([*fields, *button])}")


class _Forms(HTMLParser):
    """The forms of a page that change something: paths, and names of fields."""

    def __init__(self, text):
        super().__init__()
        self.found, self._names = [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        if tag == "form" and values.get("method", "get").lower() == "post":
            self._names = []
            self.found.append((values["action"], self._names))
        elif self._names is not None and "name" in values:
            self._names.append(values["name"])

    def handle_endtag(self, tag):
        if tag == "form":
            self._names = None


def forms_of(text):
    """Return the path and the names of the fields of each form of a page that changes something."""
    return _Forms(text).found


def links_of(text, address):
    """Return the links of a page, without those to places in it, as paths with queries."""
    found = []
    for link in _Links(text).found:
        parts = urlsplit(urljoin(f"http://localhost{address}", link))
        assert (parts.scheme, parts.netloc) == ("http", "localhost"), (address, link)
        found.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    return dict.fromkeys(found)


def page_paths(names):
    """
    Return the paths of all pages in the table, with names for their parts in braces.

    Args:
        names: sets of names that fit together.
    """
    found = {}
    for page in PAGES:
        for each in names:
            quoted = {k: quote(v, safe="", errors="surrogateescape") for k, v in each.items()}
            found[page.path.format_map(quoted)] = page
    return list(found)


def shape_of(path, prefix=""):
    """Return what paths have in common that show the same view of other things."""
    parts = urlsplit(path)
    try:
        page = _ROUTER.find("GET", parts.path.removeprefix(prefix))[0].path
    except Refused:
        page = parts.path
    is_view = not page.startswith("/actions/")
    fields = parse_qsl(parts.query)  # without empty ones
    return page, tuple(
        (name, value if is_view and len(value) <= _MAX_VALUE else "") for name, value in fields
    )


async def crawl(http, starts, *, prefix="", alike=2, views=True):
    """
    Visit pages and all that they link to; yield paths and answers.

    Args:
        http: sends requests, as tests.web.asgi does.
        starts: the first paths.
        prefix: of all paths, percent-encoded.
        alike: of links that have the same shape, so many are visited.
        views: whether the views of a page have shapes of their own; else one of them is visited.
    """
    seen, waiting = set(), list(starts)
    counts = Counter()
    while waiting:
        path = waiting.pop(0)
        shape = shape_of(path, prefix)
        if not views:
            shape = shape[0]
        if path in seen or (path not in starts and counts[shape] >= alike):
            continue
        seen.add(path)
        counts[shape] += 1
        reply = await http("GET", path)
        yield path, reply
        if reply.headers.get("content-type", "").startswith("text/html"):
            waiting += links_of(reply.content.decode(), path)
