"""
Templates and files of pages. Everything that a template shows is escaped.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from rsmq.web.pages.formats import FILTERS

#: Allows pages their own files, and nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

_FILES = resources.files("rsmq.web.pages")


def load_files() -> None:
    """Read all files, so that an upgrade in place does not mix versions in a running server."""
    _environment()
    for each in (_FILES / "static").iterdir():
        read_file(each.name)


@cache
def _environment() -> Environment:
    texts = {
        each.name: each.read_text("utf-8")
        for each in (_FILES / "templates").iterdir()
        if each.name.endswith(".html")
    }
    made = Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    return made


def render(template: str, record: object, **shared: Any) -> bytes:
    """Return a page with the attributes of its record, and with values that all pages have."""
    own = {name: getattr(record, name) for name in dir(record) if not name.startswith("_")}
    text = _environment().get_template(template).render({**shared, **own})
    return text.encode(errors="backslashreplace")


@cache
def read_file(name: str) -> tuple[bytes, str] | None:
    """Return the content and the media type of a file of the pages; None without it."""
    kind = _MEDIA_TYPES.get(name.rpartition(".")[2])
    if kind is None or "/" in name:
        return None
    try:
        content = (_FILES / "static" / name).read_bytes()
    except FileNotFoundError:
        return None
    return content, kind


@cache
def version_of(name: str) -> str:
    """Return what differs when a file has changed, so that browsers can keep it."""
    found = read_file(name)
    assert found is not None, name  # noqa: S101 - a name in a template
    return hashlib.sha256(found[0]).hexdigest()[:12]
