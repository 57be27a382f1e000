"""
The form of the table of pages: an entry, and what its view gets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from rsmq.web.api import ApiCaller
from rsmq.web.fields import Refused
from rsmq.web.table import Scope

R = TypeVar("R")


class Read(Protocol):
    """Reads an entry of the API as the caller of a page, shared with others for a moment."""

    @overload
    def __call__(
        self, answer: type[R], names: Mapping[str, str] | None = None, /, **query: object
    ) -> Awaitable[R]: ...

    @overload
    def __call__(
        self, answer: str, names: Mapping[str, str] | None = None, /, **query: object
    ) -> Awaitable[Any]: ...

    def __call__(
        self, answer: Any, names: Mapping[str, str] | None = None, /, **query: object
    ) -> Awaitable[Any]:
        """
        Return the content of the answer of a ``GET``.

        Args:
            answer: the TypedDict of the entry in the table of operations, or its path.
            names: the names in the path.
            query: the fields of its query; one that is None is not passed.

        Raises:
            Refused: the caller may not read it, or a value is not valid.
            RSMQError: as the entry raises it.
        """


class Run(Protocol):
    """Calls an entry of the API as the caller of a page."""

    def __call__(
        self, method: str, path: str, names: Mapping[str, str], content: Mapping[str, Any], /
    ) -> Awaitable[Any]:
        """
        Return the content of the answer.

        Args:
            path: as in the table of operations.
            names: the names in the path.
            content: the JSON body.

        Raises:
            Refused: the caller may not call it, or a value is not valid.
            RSMQError: as the entry raises it.
        """


@dataclass(frozen=True, slots=True)
class PageCall:
    """
    A request of a page, as its view gets it.

    Attributes:
        names: the decoded parts of the path, by the names in the entry's path.
        query: the fields of the query: the state of the page.
        read: reads entries of the API.
        read_lasting: the same, but an answer may be a minute old, unless an action was run since:
            for reads of all queues that say what changes seldom.
        run: calls an entry of the API for what an action will do, such as a preview.
        api_url: the address of the API, as the caller knows it, without a slash at its end.
        check: raises Refused unless the caller has a scope for a queue; None asks for any queue.
        count_selected: returns the number of messages of a stored selection, by its token.
    """

    names: Mapping[str, str]
    query: Mapping[str, str]
    caller: ApiCaller
    read: Read
    read_lasting: Read
    api_url: str
    run: Run
    check: Callable[[Scope, str | None], None]
    count_selected: Callable[[str], Awaitable[int]]

    def may(self, scope: Scope, queue: str | None) -> bool:
        """Return whether the caller has a scope for a queue."""
        try:
            self.check(scope, queue)
        except Refused:
            return False
        return True


View: TypeAlias = Callable[[PageCall], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True)
class PageEntry:
    """
    An entry of the table.

    Attributes:
        path: parts in braces are names.
        template: the file that shows it.
        scope: what its caller needs, for the queue ``queue`` of the path, or for any.
        view: returns the record for its template. If its ``is_live`` is false, the page does not
            refresh itself this time.
        menu: its name in the menu of all pages; None if it is not there.
        below: the path of the page in the menu to which it belongs.
        refreshes: whether an open page is asked for again; not if its view is expensive.
    """

    path: str
    template: str
    scope: Scope
    view: View
    menu: str | None = None
    below: str | None = None
    refreshes: bool = True
    method: str = "GET"
