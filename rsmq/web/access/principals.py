"""
Callers and their rights: scopes for queues whose names match a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rsmq.search.json_path import JsonPath
from rsmq.search.redaction import Redaction
from rsmq.trash.deletion import UNKNOWN_CALLER
from rsmq.web.fields import Refused
from rsmq.web.table import READING, Scope
from rsmq.web.wording import ForPrograms

#: The scopes of each role.
ROLES: dict[str, frozenset[Scope]] = {
    "viewer": frozenset({Scope.STATS, Scope.PEEK, Scope.METRICS}),
    "operator": frozenset(Scope) - {Scope.DESTROY},
    "admin": frozenset(Scope),
}


#: In place of a queue's name: a caller must have the rights for all of them.
ALL_QUEUES = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """
    A caller.

    Attributes:
        name: of the user or the token.
        scopes: what it may do.
        patterns: with the queues whose names match one of these patterns of the shell.
        redact: the paths of values in bodies that it does not see, beside those of the server; None
            sees all.
        namespaces: in the namespaces whose names match one of these patterns of the shell; None is
            the first one of the server only.
    """

    name: str
    scopes: frozenset[Scope]
    patterns: tuple[str, ...] = ("*",)
    redact: tuple[JsonPath, ...] | None = ()
    namespaces: tuple[str, ...] | None = None

    def has_namespace(self, namespace: str, *, is_first: bool) -> bool:
        """
        Return whether the caller has rights in a namespace.

        Args:
            is_first: whether it is the first one of the server.
        """
        if self.namespaces is None:
            return is_first
        return any(fnmatchcase(namespace, each) for each in self.namespaces)

    def redaction(self, of_server: tuple[JsonPath, ...]) -> Redaction:
        """Return what of bodies it does not see, with the paths of the server."""
        return Redaction() if self.redact is None else Redaction((*of_server, *self.redact))

    def check(self, scope: Scope, queue: str | None, *, read_only: bool) -> None:
        """
        Raise Refused unless the caller may act.

        Args:
            queue: the name of a queue; None asks for any, ALL_QUEUES for all.
            read_only: whether the server refuses all changes.
        """
        if read_only and scope not in READING:
            raise read_only_error()
        if queue is None or ALL_QUEUES in self.patterns:
            has_queue = True
        else:
            is_one = queue != ALL_QUEUES
            has_queue = is_one and any(fnmatchcase(queue, each) for each in self.patterns)
        if scope not in self.scopes or not has_queue:
            raise Refused(
                "forbidden",
                f"{self.name} may not do this",
                status=403,
                hint=f"It needs the scope {scope.value}{_PLACES.get(queue, ' for this queue')}.",
            )


_CHALLENGES = 'Basic realm="rsmq", charset="UTF-8", Bearer realm="rsmq"'


def unauthorized(text: str) -> Refused:
    """Return the error of a caller that is not known."""
    return Refused(
        "unauthorized",
        text,
        status=401,
        hint="Send Authorization: Bearer TOKEN, or a user and a password.",
        headers={"WWW-Authenticate": _CHALLENGES},
    )


#: The code of ``namespace_not_found``.
NAMESPACE_NOT_FOUND = "namespaceNotFound"


def namespace_not_found() -> Refused:
    """Return the error of a namespace that is not there, or in which the caller has no rights."""
    return Refused(
        NAMESPACE_NOT_FOUND,
        "There is no such namespace for this caller",
        status=404,
        hint=ForPrograms("GET /api/v1/ns lists its namespaces."),
    )


_PLACES = {None: "", ALL_QUEUES: " for all queues"}


def read_only_error() -> Refused:
    """Return the error of a call that a read-only server does not run."""
    return Refused("readOnly", "This server is read-only", status=403, hint="It was started so.")


#: The caller of a server with a single key.
NAME_OF_KEY = "the key"
#: The caller of a server without authentication, and of one with a single key.
EVERYONE = Principal(UNKNOWN_CALLER, frozenset(Scope), namespaces=("*",))


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Return scopes by their names; raises ValueError for another name."""
    return frozenset(Scope(name) for name in names)
