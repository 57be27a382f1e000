"""
The target of a webhook: its URL, checked, and its text for logs.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from rsmq.errors import InvalidFormat, MissingParameter, show, show_type
from rsmq.errors.hints import Hint, Passed
from rsmq.webhooks.addresses import AddressRefused, AddressRules

#: The end of the name of the dead-letter queue that a webhook creates if there is no other.
DEAD_LETTER_SUFFIX = "-dead"
_MAX_URL_CHARACTERS = 2048
_CONTENT_TYPE = re.compile(r"[\x21-\x7e]+/[\x20-\x7e]+")
_INVALID = re.compile(r"[\x00-\x20\x7f\\]")
#: Addresses that the system's resolver understands, and most people do not: 2130706433, 0x7f.1.
_NUMERIC_HOST = re.compile(r"(?:0[xX][0-9a-fA-F]*|\d+)(?:\.(?:0[xX][0-9a-fA-F]*|\d+)){0,3}\.?")
_RULE = "A target is a URL with a host, as in https://example.org/hooks"


@dataclass(frozen=True, slots=True)
class Target:
    """
    The target of a webhook.

    Attributes:
        url: its URL. It may contain a token: use ``shown`` in logs and errors.
        shown: the URL without the text of its query.
        host: its host name or address, in lower case.
    """

    url: str
    shown: str
    host: str

    def __repr__(self) -> str:
        return f"Target({self.shown!r})"


def parse_target(url: object, *, allow_http: bool, rules: AddressRules) -> Target:
    """
    Return the target of a URL.

    Args:
        allow_http: whether ``http`` is allowed too.
        rules: the rules for addresses, for a URL whose host is an address.

    Raises:
        MissingParameter: there is no URL.
        InvalidFormat: it is not a URL that messages may be pushed to.
    """
    if url is None or url == "":
        raise MissingParameter("url", value=url, hint=f"{_RULE}.")
    if not isinstance(url, str):
        raise InvalidFormat("url", value=show_type(url), hint=f"{_RULE}.")
    shown = redact_url(url)
    if len(url) > _MAX_URL_CHARACTERS or _INVALID.search(url):
        raise InvalidFormat(
            "url",
            value=shown[:100],
            hint=f"It has at most {_MAX_URL_CHARACTERS} characters, without blanks, control "
            "characters and backslashes.",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidFormat("url", value=shown, hint=f"{_RULE}.") from None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise InvalidFormat("url", value=shown, hint=f"{_RULE}.")
    if "@" in parts.netloc:
        raise InvalidFormat(
            "url",
            value=shown,
            hint="It has a user or a password. Sign the requests with a secret instead.",
        )
    if parts.scheme == "http" and not allow_http:
        raise InvalidFormat(
            "url",
            value=shown,
            hint=Hint(
                "With http everyone on the way can read the messages. Use https, or ",
                Passed("allow_http", True),
                ".",
            ),
        )
    check_host(host, shown, rules)
    return Target(url.partition("#")[0], shown, host)


def check_content_type(content_type: object) -> str:
    """
    Return a media type, if it is one.

    Raises:
        InvalidFormat: it is not.
    """
    if not isinstance(content_type, str) or not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidFormat(
            "content_type",
            value=show(content_type),
            hint="It is a media type, as in application/json.",
        )
    return content_type


def target_field(queue: str, url: str) -> str:
    """Return the field of the stored state of a target, for messages of a queue."""
    text = f"{queue}\n{url.partition('#')[0]}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def check_host(host: str, shown: str, rules: AddressRules) -> None:
    """
    Check the host of a URL, if it is an address.

    Args:
        shown: the URL for the error.

    Raises:
        InvalidFormat: it is not allowed, or can be read in several ways.
    """
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        if _NUMERIC_HOST.fullmatch(host):
            raise InvalidFormat(
                "url", value=shown, hint="Write the address as four decimal numbers with dots."
            ) from None
        return
    try:
        rules.check(host)
    except AddressRefused as error:
        raise InvalidFormat("url", value=shown, hint=Hint("The ", error.args[0], ".")) from None


def redact_url(url: str) -> str:
    """Return a URL without user, password, fragment, and the text of its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    host = parts.netloc.rpartition("@")[2]
    netloc = f"***@{host}" if "@" in parts.netloc else host
    query = "***" if parts.query else ""
    return SplitResult(parts.scheme, netloc, parts.path, query, "").geturl()
