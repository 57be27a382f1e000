"""
The page that describes the API for people, made from the table. Its script only filters it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """An entry of the table with its example; ``id`` is that of its part of the page."""

    id: str
    route: Route
    example: ApiExample

    @property
    def answers(self) -> str:
        """The statuses of its answers, with what they mean."""
        return "; ".join(f"{status}: {text}" for status, text in self.route.answers.items())


@dataclass(frozen=True, slots=True)
class ApiPage:
    """
    The page.

    Attributes:
        groups: each with its id, its name and its operations.
        prefix: the path of the API, below which the page is.
        pages: the path of the pages of the namespace.
        root: the prefix of the paths of the server.
    """

    groups: list[tuple[str, str, list[ApiOperation]]]
    version: str
    prefix: str
    pages: str
    root: str

    def file(self, name: str) -> str:
        """Return the address of a file of the pages."""
        return f"{self.root}/static/{name}?v={version_of(name)}"


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
    groups: dict[str, list[ApiOperation]] = {each: [] for each in (*_GROUPS, _OTHERS)}
    for route, example in zip(table, make_examples(table, origin + prefix, namespace), strict=True):
        operation = ApiOperation(_id_of(route.method, route.path), route, example)
        groups[_group_of(route)].append(operation)
    listed = [(_id_of(name), name, operations) for name, operations in groups.items()]
    page = ApiPage(listed, version, prefix, root + of_namespace, root)
    return render("api.html", page).decode()


def _group_of(route: Route) -> str:
    words = re.findall(r"/([a-z-]+)", route.path)
    word = words[1] if len(words) > 1 and words[0] == "queues" else words[0]
    return next((name for name, members in _GROUPS.items() if word in members), _OTHERS)


def _id_of(*words: str) -> str:
    """Return the id of a part of the page."""
    return "-".join(chain.from_iterable(re.findall(r"[a-z]+", each.lower()) for each in words))
