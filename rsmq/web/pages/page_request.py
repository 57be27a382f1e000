"""
A request of a page: its fields, and what is checked of it before its caller is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote

from rsmq.web.access.gate import Receive
from rsmq.web.access.sessions import cookie_name
from rsmq.web.fields import Refused
from rsmq.web.pages.links import Links
from rsmq.web.requests import path_of_namespace

#: Fields of a form: the ids of messages that were chosen, and some more.
_MAX_FIELDS = 20_000
#: The name among the headers under which the query is, as it was sent.
QUERY = ":query"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a page."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    peer: Any
    links: Links
    is_secure: bool
    receive: Receive

    @property
    def api_url(self) -> str:
        """The address of the API of the namespace, as the caller knows it."""
        scheme = "https" if self.is_secure else "http"
        return f"{scheme}://{self.headers.get('host', 'localhost')}{self.links.api_prefix}"

    @property
    def address(self) -> str:
        """The path and the query, below the prefix of the server."""
        return (
            path_of_namespace(self.links.namespace)
            + self.path
            + (f"?{self.headers[QUERY]}" if self.headers[QUERY] else "")
        )


def read_fields(text: str) -> dict[str, list[str]]:
    """
    Return the fields of a query or a form, each with its values.

    Raises:
        Refused: it has too many fields, or is not valid.
    """
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="surrogateescape", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Refused("invalidFormat", "The form is not valid", status=400) from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def read_pairs(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, each with its first value."""
    return {name: values[0] for name, values in read_fields(text).items()}


def reads_pages(headers: Mapping[Any, Any]) -> bool:
    """Return whether a client shows HTML to people; others get problem details."""
    accept = headers.get("accept") or headers.get(b"accept", b"")
    return "text/html" in (accept.decode("latin-1") if isinstance(accept, bytes) else accept)


def is_foreign_link(request: PageRequest) -> bool:
    """Return whether a person has followed a link on another site."""
    return (
        request.method == "GET"
        and request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        and request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest") == "document"
    )


def check_method(request: PageRequest, *allowed: str) -> None:
    """Refuse a request whose method the path does not have."""
    if request.method not in allowed:
        text = ", ".join(sorted({*allowed, *({"HEAD"} if "GET" in allowed else ())}))
        raise Refused(
            "methodNotAllowed", f"This path has no {request.method}", status=405,
            hint=f"It has {text}.", headers={"Allow": text},
        )  # fmt: skip


def own_path(text: str | None) -> str:
    """Return a path of this site, whatever an address names as the next page."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    return quote(text, safe="/?&=%:+,;@!$'()*~.-_")


def session_cookie(request: PageRequest) -> str:
    """Return the name of the cookie of a session."""
    return cookie_name(request.headers.get("host", ""))
