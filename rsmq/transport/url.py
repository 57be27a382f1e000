"""
URLs: parsed, checked, and shown without their secrets.
"""

from __future__ import annotations

import re
from collections.abc import Container
from contextlib import suppress
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from rsmq.errors import InvalidFormat

#: The scheme of a server inside the process.
MEMORY = "memory://"
_DATABASE = re.compile(r"/?\d*/?")
_HOST = re.compile(r"[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]*\]")
ENCODED_RULE = "/ # ? @ : [ and ] in a password are percent-encoded, letters of other scripts too."
_SCHEMES = (MEMORY, "redis://", "rediss://", "unix://")


def check_url(url: object) -> str:
    """
    The URL itself.

    Raises:
        InvalidFormat: it is not a str, or none of the schemes that are known.
    """
    if not isinstance(url, str):
        raise InvalidFormat(
            "url",
            value=type(url).__name__,
            hint="A URL is a str such as 'redis://127.0.0.1:6379/0'; "
            "a client goes to the constructor.",
        )
    if not url.startswith(_SCHEMES):
        raise bad_url(url, "A URL begins with redis://, rediss://, unix:// or memory://.")
    path = None
    with suppress(ValueError):
        path = urlsplit(url).path
    if path is None:  # raised here: as its context, the other error would show the password
        raise bad_url(url, ENCODED_RULE)
    # redis-py takes a path that is not a number for database 0.
    if url.startswith(("redis://", "rediss://")) and not _DATABASE.fullmatch(path):
        raise bad_url(url, "What follows the last slash is the number of the database.")
    return url


def bad_url(url: str, rule: str) -> InvalidFormat:
    """The error for a URL; whatever may be part of a password is not shown."""
    shown = _without_secrets(url)
    return InvalidFormat(
        "url",
        value=shown,
        hint=f"{rule} User, password and options left out, it is {shown!r}.",
    )


def _without_secrets(url: str) -> str:
    """Scheme, host, port and database, as far as they are such; stars for all else."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "***"
    before, _, place = rest.rpartition("@")
    if "?" in before or "#" in before:  # in an option or in a password: nobody can tell
        return f"{scheme}://***"
    place = place.partition("?")[0]
    if scheme == "unix":
        return f"{scheme}://{place}"
    address, slash, database = place.partition("/")
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", "")
    shown = host if _HOST.fullmatch(host) else "***"
    shown += colon + (port if port.isdecimal() else "***") if colon else ""
    return f"{scheme}://{shown}{slash}{database if _DATABASE.fullmatch(database) else '***'}"


def split_password(url: str) -> tuple[str, str | None]:
    """
    Return a URL without its password, and the password; None if it has none.

    Raises:
        InvalidFormat: it is not a URL of Redis.
    """
    parts = urlsplit(check_url(url))
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if not colon:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{user}@{host}" if user else host
    return urlunsplit(parts._replace(netloc=netloc)), unquote(password)


def has_password(url: str) -> bool:
    """
    Return whether a URL holds a password, also as an option.

    Raises:
        ValueError: it can't be parsed; its context may show the password.
    """
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    return bool(parts.password) or any("password" in name.lower() for name, _ in options)


def without_options(url: str, names: Container[str]) -> str:
    """Return a URL without the options of these names."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in options if name not in names]
    return urlunsplit(parts._replace(query=urlencode(kept)))


#: In a text: a URL from its slashes to the last @, or to the … of a shortened text; and a password
#: that is an option.
_SECRETS = re.compile(
    r"(\w:/{1,2}|//)(?:.*(?=@)|\S*…)|(password=)[^\s&'\"]*", re.DOTALL | re.IGNORECASE
)


def redact(text: str) -> str:
    """Return a text without what may be the password of a URL; it rather removes too much."""
    return _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)
