"""
Finds the entry of a path. The path is split while it is percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from urllib.parse import unquote

from rsmq.web.fields import Refused
from rsmq.web.wording import ForPrograms


class RouterEntry(Protocol):
    """An entry with a method and a path, whose parts in braces are names."""

    @property
    def method(self) -> str:
        """In capitals."""

    @property
    def path(self) -> str:
        """With a slash at its begin."""


EntryT = TypeVar("EntryT", bound=RouterEntry)


@dataclass(slots=True)
class _Node(Generic[EntryT]):
    """The entries of a path, and those of longer ones by their next part."""

    children: dict[str, _Node[EntryT]] = field(default_factory=dict)
    routes: dict[str, EntryT] = field(default_factory=dict)
    names: tuple[str, ...] = ()


def _key_of(part: str) -> tuple[str, str | None]:
    """Return the key of a part of an entry's path, and the name that it has."""
    if not part.startswith("{"):
        return part, None
    name, _, action = part.removeprefix("{").partition("}")
    return "{}" + action, name


class PathRouter(Generic[EntryT]):
    """The entries of a table by path and method."""

    def __init__(self, routes: Iterable[EntryT]) -> None:
        self._root: _Node[EntryT] = _Node()
        for route in routes:
            node, names = self._root, list[str]()
            for part in route.path.strip("/").split("/"):
                key, name = _key_of(part)
                node = node.children.setdefault(key, _Node())
                names += [name] if name else []
            if route.method in node.routes:
                raise AssertionError(f"{route.method} {route.path} is in the table twice")
            node.routes[route.method] = route
            node.names = tuple(names)

    def find(self, method: str, path: str) -> tuple[EntryT, Mapping[str, str]]:
        """
        Return an entry, and the names in the path.

        Args:
            path: percent-encoded, without the prefix of the table.

        Raises:
            Refused: there is no such path, or it has not this method.
        """
        node, values = self._root, []
        for part in path.strip("/").split("/"):
            child = node.children.get(part)
            if child is None:
                before, colon, after = part.rpartition(":")
                child = node.children.get(f"{{}}:{after}") if colon else None
                child, value = (child, before) if child else (node.children.get("{}"), part)
                if child is None or not value:
                    raise _not_found()
                values.append(unquote(value, errors="surrogateescape"))
            node = child
        if not node.routes:
            raise _not_found()
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted({*node.routes, *({"HEAD"} if "GET" in node.routes else ())}))
            raise Refused(
                "methodNotAllowed",
                f"This path has no {method}",
                status=405,
                hint=f"It has {allowed}.",
                headers={"Allow": allowed},
            )
        return route, dict(zip(node.names, values, strict=True))


def _not_found() -> Refused:
    return Refused(
        "notFound",
        "There is no such path",
        status=404,
        hint=ForPrograms("/api/v1/openapi.json has all paths."),
    )
