"""
The page that describes the API for people, made from the table. Its script only filters it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain

from rsmq.web.pages.api_examples import ApiExample, make_examples
from rsmq.web.pages.rendering import render, version_of
from rsmq.web.table import Route

#: The groups of operations, by the first word of their paths behind the name of a queue.
_GROUPS = {
    "Queues": {"queues", "counts", "scaling", "limits", "why", "history"},
    "Messages": {"messages", "raw", "publish", "receive", "pop", "tail"},
    "Jobs, tasks and flows": {"jobs", "tasks", "flows"},
    "Dead letters": {"dead-letters", "dead-letter-policy"},
    "Schedules": {"schedules", "delayed"},
    "Webhooks": {"subscribers", "webhooks"},
    "Workers": {"workers"},
    "Alerts": {"alerts", "alert-targets", "alert-silences"},
    "Changes": {"undo", "operations", "audit", "marks"},
}
_OTHERS = "Server"


def make_api_page(
    table: Iterable[Route], version: str, prefix: str, origin: str, namespace: str
) -> str:
    """
    Return the page.

    Args:
        prefix: the path of the API, below which the page is.
        origin: the scheme and the host of the server, as the caller knows them.
        namespace: the name of the namespace whose API it is.
    """
    root, _, of_namespace = prefix.partition("/api/v1")
    table = tuple(table)
    groups: dict[str, list[tuple[Route, ApiExample]]] = {each: [] for each in (*_GROUPS, _OTHERS)}
    for route, example in zip(table, make_examples(table, origin + prefix, namespace), strict=True):
        groups[_group_of(route)].append((route, example))
    values = {
        "groups": groups, "version": version, "prefix": prefix, "pages": root + of_namespace,
        "describe": _describe, "id_of": _id_of,
        "file": lambda name: f"{root}/static/{name}?v={version_of(name)}",
    }  # fmt: skip
    return render("api.html", values).decode()


def _group_of(route: Route) -> str:
    words = re.findall(r"/([a-z-]+)", route.path)
    word = words[1] if len(words) > 1 and words[0] == "queues" else words[0]
    return next((name for name, members in _GROUPS.items() if word in members), _OTHERS)


def _id_of(*words: str) -> str:
    """Return the id of a part of the page."""
    return "-".join(chain.from_iterable(re.findall(r"[a-z]+", each.lower()) for each in words))


def _describe(answers: Mapping[int, str]) -> str:
    return "; ".join(f"{status}: {text}" for status, text in answers.items())
