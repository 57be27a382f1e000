"""
URLs: parsed, checked, and shown without their secrets.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from rsmq.errors import InvalidFormat, show_type

#: The scheme of a server inside this process.
MEMORY_SCHEME = "memory://"
_DATABASE = re.compile(r"/?\d*/?")
_HOST = re.compile(r"[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]*\]")
ENCODING_RULE = "In a password, percent-encode / # ? @ : [ ] and letters that are not ASCII."
#: A host and a port or a database, without a user or a password.
_ADDRESS = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}(/[0-9]*)?")
_SCHEMES = (MEMORY_SCHEME, "redis://", "rediss://", "unix://")


def check_url(url: object) -> str:
    """
    Check a URL, and return it unchanged.

    Raises:
        InvalidFormat: the URL is not a str, has an unknown scheme, can't be parsed, or has a path
            that is not a database number.
    """
    if not isinstance(url, str):
        raise InvalidFormat(
            "url",
            value=show_type(url),
            hint="Is the variable with the URL set?"
            if url is None
            else "A URL is a str such as 'redis://127.0.0.1:6379/0'. A client goes to the "
            "constructor.",
        )
    if not url.startswith(_SCHEMES):
        raise _scheme_error(url)
    path = None
    with suppress(ValueError):
        path = urlsplit(url).path
    if path is None:  # raised here: as its context, the other error would show the password
        raise invalid_url_error(url, ENCODING_RULE)
    # redis-py uses database 0 if the path is not a number.
    if url.startswith(("redis://", "rediss://")) and not _DATABASE.fullmatch(path):
        raise invalid_url_error(url, "The part after the last slash is the number of the database.")
    return url


def invalid_url_error(url: str, rule: str) -> InvalidFormat:
    """Return the error for a URL; it shows nothing that may be part of a password."""
    masked = _mask_secrets(url)
    return InvalidFormat("url", value=masked, hint=rule)


def _scheme_error(url: str) -> InvalidFormat:
    schemes = "A URL begins with redis://, rediss:// (TLS), unix:// or memory://."
    if not url.strip():
        return InvalidFormat("url", value=url, hint="Is the variable with the URL set?")
    if _ADDRESS.fullmatch(url):
        return InvalidFormat(
            "url", value=url, hint=f"The scheme is missing: write 'redis://{url}'. {schemes}"
        )
    return invalid_url_error(url, schemes)


def _mask_secrets(url: str) -> str:
    """Return the scheme, host, port and database of a URL, with stars for invalid parts."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "***"
    before, _, location = rest.rpartition("@")
    if "?" in before or "#" in before:  # the @ may be in an option or in a password
        return f"{scheme}://***"
    location = location.partition("?")[0]
    if scheme == "unix":
        return f"{scheme}://{location}"
    address, slash, database = location.partition("/")
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", "")
    masked = host if _HOST.fullmatch(host) else "***"
    masked += colon + (port if port.isdecimal() else "***") if colon else ""
    return f"{scheme}://{masked}{slash}{database if _DATABASE.fullmatch(database) else '***'}"


def split_password(url: str) -> tuple[str, str | None]:
    """
    Return a URL without its password, and the decoded password; None if it has none.

    Raises:
        InvalidFormat: ``check_url`` rejects the URL.
    """
    parts = urlsplit(check_url(url))
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if not colon:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{user}@{host}" if user else host
    return urlunsplit(parts._replace(netloc=netloc)), unquote(password)


def has_password(url: str) -> bool | None:
    """Return whether a URL has a password, also as an option; None if it can't be parsed."""
    with suppress(ValueError):
        password = urlsplit(url).password
        return bool(password) or any("password" in name.lower() for name in option_names(url))
    return None


def option_names(url: str) -> list[str]:
    """Return the names of the options of a URL, also of one that can't be parsed."""
    return [name for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)]


def with_options(url: str, options: Mapping[str, str]) -> str:
    """Return a URL with more options."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(options)}" if options else url


def without_options(url: str, names: Container[str]) -> str:
    """Return a URL without the options that have one of the names."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    kept_options = [(name, value) for name, value in options if name not in names]
    return urlunsplit(parts._replace(query=urlencode(kept_options)))


#: The secrets in a text: of a URL, all from its slashes to the last @, or to the … of a shortened
#: text; and a password that is an option.
_SECRETS = re.compile(
    r"(\w:/{1,2}|//)(?:.*(?=@)|\S*…)|(password=)[^\s&'\"]*", re.DOTALL | re.IGNORECASE
)


def redact(text: str) -> str:
    """Return a text in which stars replace all that may be the password of a URL, or more."""
    return _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)
