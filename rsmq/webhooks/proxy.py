"""
The targets that webhooks may connect to: addresses, http, and the proxy that connects for them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote, urlsplit

from rsmq.errors import InvalidFormat, show_type
from rsmq.webhooks.addresses import AddressRules, parse_ranges
from rsmq.webhooks.targets import redact_url

_RULE = "A proxy is a URL with http and a host, as in http://proxy.example.org:3128"


@dataclass(frozen=True, slots=True)
class Proxy:
    """
    A proxy for HTTP, which looks names up and connects.

    Attributes:
        url: its URL, without user and password.
        login: the header that logs in; None if it asks for no user.
    """

    url: str
    login: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Reach:
    """
    The targets that a webhook may connect to.

    Attributes:
        rules: the rules for addresses.
        allow_http: whether URLs may have http instead of https.
        proxy: the proxy of all connections; None connects to the targets.
    """

    rules: AddressRules
    allow_http: bool
    proxy: Proxy | None

    @classmethod
    def parse(
        cls,
        allow: str | Iterable[str],
        allow_http: bool,  # noqa: FBT001 - called in two places
        proxy: str | None,
    ) -> Self:
        """
        Return it for the arguments of ``Worker.webhook``.

        Raises:
            InvalidFormat: a range of addresses or the proxy is invalid.
        """
        return cls(
            AddressRules(parse_ranges(allow)),
            allow_http,
            None if proxy is None else parse_proxy(proxy),
        )


def parse_proxy(url: object) -> Proxy:
    """
    Return the proxy of a URL.

    Raises:
        InvalidFormat: it is not the URL of a proxy.
    """
    if not isinstance(url, str):
        raise InvalidFormat("proxy", value=show_type(url), hint=f"{_RULE}.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidFormat("proxy", value="(not a URL)", hint=f"{_RULE}.") from None
    has_more = parts.path not in ("", "/") or parts.query or parts.fragment
    if parts.scheme != "http" or not host or port == 0 or has_more:
        shown = redact_url(url) if parts.netloc else "(not a URL)"
        raise InvalidFormat("proxy", value=shown, hint=f"{_RULE}.")
    login = None
    if parts.username is not None:
        text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {base64.b64encode(text.encode()).decode()}"
    return Proxy(f"http://{parts.netloc.rpartition('@')[2]}", login)
