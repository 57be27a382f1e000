"""
Addresses of pages, below the prefix of a mount or of a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from rsmq.web.requests import path_of_namespace


def part_of(name: str) -> str:
    """Return a name as a part of a path."""
    return quote(name, safe="", errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Links:
    """
    The addresses of the pages of a server.

    Attributes:
        prefix: of all its paths, percent-encoded, without a slash at its end.
        namespace: whose pages they are, if its name is in their paths; empty for those of the
            first namespace.
    """

    prefix: str
    namespace: str = ""

    @property
    def pages(self) -> str:
        """The prefix of the pages of the namespace."""
        return self.prefix + path_of_namespace(self.namespace)

    @property
    def api_prefix(self) -> str:
        """The prefix of the API of the namespace."""
        return f"{self.prefix}/api/v1{path_of_namespace(self.namespace)}"

    def server(self, path: str = "", **query: object) -> str:
        """Return an address that does not belong to a namespace, as ``url`` does for one."""
        return f"{self.prefix}/{path.lstrip('/')}{with_query(query)}"

    def url(self, path: str = "", **query: object) -> str:
        """
        Return the address of a page.

        Args:
            path: percent-encoded, with or without a slash at its begin.
            query: the fields of its query; one that is None or empty is left out.
        """
        return f"{self.pages}/{path.lstrip('/')}{with_query(query)}"

    def queue(self, queue: str, *parts: str, **query: object) -> str:
        """Return the address of a queue's page, or of one below it: its parts are names."""
        path = "/".join(map(part_of, (queue, *parts)))
        return self.url(f"queues/{path}", **query)

    def message(self, queue: str, id: str) -> str:
        """Return the address of a message's page."""
        return self.queue(queue, "messages", id)

    def api(self, *parts: str, action: str = "", **query: object) -> str:
        """Return the address of an entry of the API: the parts are names."""
        path = "/".join(map(part_of, parts))
        return f"{self.api_prefix}/{path}{action and ':'}{action}{with_query(query)}"

    def worker(self, name: str) -> str:
        """Return the address of a worker's page."""
        return self.url(f"workers/{part_of(name)}")

    def schedule(self, name: str) -> str:
        """Return the address of a schedule's page."""
        return self.url(f"schedules/{part_of(name)}")

    def flow(self, id: str) -> str:
        """Return the address of a flow's page."""
        return self.url(f"flows/{part_of(id)}")

    def dead_letters(self, queue: str) -> str:
        """Return the address of the page of a queue's dead letters."""
        return self.url(f"dead-letters/{part_of(queue)}")

    def action(self, name: str, **fields: object) -> str:
        """Return the address of the page that confirms an action."""
        return self.url(f"actions/{part_of(name)}", **fields)


def with_query(query: Mapping[str, object]) -> str:
    """Return the query of an address, with its question mark."""
    pairs = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"?{urlencode(pairs, errors='surrogateescape')}" if pairs else ""
