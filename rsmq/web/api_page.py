"""
The page that describes the API for people, made from the table; it has no script.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rsmq.web.fields import Field
from rsmq.web.table import RawBody, Route

#: Allows the page nothing but its own style.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"

_STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8888; padding: .25rem .5rem; text-align: left }
"""


def make_page(table: Iterable[Route], version: str, prefix: str) -> str:
    """Return the page."""
    sections = "".join(_section(route) for route in table)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>API of rsmq</title><style>{_STYLE}</style></head><body>"
        f"<h1>API of rsmq {escape(version)}</h1>"
        f"<p>All paths are below <code>{escape(prefix)}</code>. "
        '<a href="openapi.json">OpenAPI 3.1</a></p>'
        f"<main>{sections}</main></body></html>"
    )


def _section(route: Route) -> str:
    answers = "; ".join(f"{status}: {text}" for status, text in route.answers.items())
    return (
        f"<section><h2><code>{escape(route.method)} {escape(route.path)}</code></h2>"
        f"<p>{escape(route.summary)}"
        + ("" if route.scope is None else f" Needs the scope <code>{route.scope.value}</code>.")
        + (" Takes <code>Idempotency-Key</code>." if route.idempotent else "")
        + "</p>"
        + _fields("Query", route.query)
        + _fields("Body", route.body)
        + _fields(f"Answer ({answers})", route.result)
        + "</section>"
    )


def _fields(title: str, fields: tuple[Field, ...] | RawBody) -> str:
    if isinstance(fields, RawBody):
        return f"<p>{escape(title)}: bytes</p>"
    if not fields:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(each.name)}</code></td>"
        f"<td>{escape(each.kind.value.what)}{', needed' if each.required else ''}</td>"
        f"<td>{escape(each.text)}</td></tr>"
        for each in fields
    )
    return (
        f"<table><caption>{escape(title)}</caption>"
        f"<tr><th>field</th><th>kind</th><th>meaning</th></tr>{rows}</table>"
    )
