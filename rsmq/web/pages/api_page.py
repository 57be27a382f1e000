"""
The page that describes the API for people, made from the table; it has no script.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rsmq.web.pages.rendering import render, version_of
from rsmq.web.table import Route


def make_api_page(table: Iterable[Route], version: str, prefix: str) -> str:
    """
    Return the page.

    Args:
        prefix: the path of the API, below which the page is.
    """
    root = prefix.partition("/api/v1")[0]
    values = {
        "table": table, "version": version, "prefix": prefix, "describe": _describe,
        "file": lambda name: f"{root}/static/{name}?v={version_of(name)}",
    }  # fmt: skip
    return render("api.html", values).decode()


def _describe(answers: Mapping[int, str]) -> str:
    return "; ".join(f"{status}: {text}" for status, text in answers.items())
