"""
URLs: parsed, checked, and shown without their secrets.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from rsmq.errors import InvalidFormat, show_type
from rsmq.transport.topology.address import Address, AddressRemap

#: The scheme of a server inside this process.
MEMORY_SCHEME = "memory://"
_DATABASE = re.compile(r"/?\d*/?")
_SERVICE = re.compile(r"[A-Za-z0-9._-]+(/\d*)?")
_HOST = re.compile(r"[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]*\]")
ENCODING_RULE = "In a password, percent-encode / # ? @ : [ ] and letters that are not ASCII."
#: A host and a port or a database, without a user or a password.
_ADDRESS = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}(/[0-9]*)?")
#: The schemes of several servers.
_GROUP_SCHEMES = (
    "redis+cluster://",
    "rediss+cluster://",
    "redis+sentinel://",
    "rediss+sentinel://",
)
_SCHEMES = (MEMORY_SCHEME, "redis://", "rediss://", "unix://", *_GROUP_SCHEMES)
_GROUP_URL = re.compile(
    r"(?P<scheme>rediss?)\+(?P<kind>cluster|sentinel)://"
    r"(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_SEED = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:,]+)(?::(?P<port>[0-9]{1,5}))?")
_LABEL_RULE = "Each part of it between dots has 1 to 63 characters."
_SEED_RULE = "The scheme is followed by hosts and ports, separated by commas. "
_DEFAULT_PORTS = {"cluster": 6379, "sentinel": 26379}
_MAX_PORT = 65_535
_REMAP_RULE = (
    "It is HOST:PORT=HOST:PORT, the reported address and the one to use, or HOST=HOST for all "
    "ports. Commas separate several pairs."
)
#: The options of a group that redis-py does not have.
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_REMAP_OPTION = "address_remap"


@dataclass(frozen=True, slots=True)
class GroupUrl:
    """
    The parts of the URL of a Redis Cluster or of a Sentinel group.

    Attributes:
        seeds: the addresses.
        service: the name of the primary for Sentinel; None for a cluster.
        server_url: the URL of one server with the same user, password, database and options.
        sentinel_username: the user of the Sentinels; None without one.
        sentinel_password: the password of the Sentinels; None without one.
        address_remap: changes the addresses that servers report; None without a change.
    """

    seeds: tuple[Address, ...]
    service: str | None
    server_url: str = field(repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(repr=False, default=None)
    address_remap: AddressRemap | None = None

    def take_options(self, options: dict[str, Any]) -> GroupUrl:
        """
        Return the parts with the options of a call; those of the URL have precedence.

        Args:
            options: options for redis-py. Those that belong to the group are removed:
                ``address_remap``, and with Sentinels ``sentinel_username`` and
                ``sentinel_password``.

        Raises:
            InvalidFormat: address_remap is not a function.
        """
        names = (_REMAP_OPTION, *(_SENTINEL_OPTIONS if self.service is not None else ()))
        taken = {name: options.pop(name) for name in names if name in options}
        remap = taken.get(_REMAP_OPTION)
        if remap is not None and not callable(remap):
            raise InvalidFormat(
                _REMAP_OPTION,
                value=show_type(remap),
                hint="Pass a function of a tuple (host, port) that returns such a tuple. In a URL "
                "it is ?address_remap=HOST:PORT=HOST:PORT.",
            )
        missing = {name: value for name, value in taken.items() if getattr(self, name) is None}
        return replace(self, **missing)


def check_url(url: object) -> str:
    """
    Check a URL, and return it unchanged.

    Raises:
        InvalidFormat: the URL is not a str, has an unknown scheme, can't be parsed, or has a path
            that is not a database number, an option without a value, or an impossible host name.
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
    for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        # With an @ behind it, the name may be a part of a password.
        if not value:
            shown = "An option" if "@" in url.partition("?")[2] else f"The option {name}"
            raise invalid_url_error(url, f"{shown} has no value: add one, or remove the option.")
    if is_group_url(url):
        for seed in parse_group_url(url).seeds:
            check_host(seed.host)
        return url
    path = host = None
    with suppress(ValueError):
        parts = urlsplit(url)
        path, host = parts.path, parts.hostname
    if path is None:  # raised here: as its context, the other error would show the password
        raise invalid_url_error(url, ENCODING_RULE)
    # redis-py uses database 0 if the path is not a number.
    if url.startswith(("redis://", "rediss://")) and not _DATABASE.fullmatch(path):
        raise invalid_url_error(url, "The part after the last slash is the number of the database.")
    check_host(unquote(host or ""))
    return url


def check_host(host: str) -> None:
    """
    Check that a host name is possible; ``""`` is the default host.

    Raises:
        InvalidFormat: it has an empty or too long part.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        shown = host if _HOST.fullmatch(host) else "***"
        raise InvalidFormat("host name", value=shown, hint=_LABEL_RULE) from None


def is_group_url(url: str) -> bool:
    """Return whether a URL is that of a Redis Cluster or of a Sentinel group."""
    return url.startswith(_GROUP_SCHEMES)


def parse_group_url(url: str) -> GroupUrl:
    """
    Return the parts of the URL of a Redis Cluster or of a Sentinel group.

    Raises:
        InvalidFormat: a host, a port, the name of the primary, the database or address_remap is
            invalid.
    """
    parts = _GROUP_URL.fullmatch(url)
    if parts is None:
        raise invalid_url_error(url, ENCODING_RULE)
    kind, path = parts["kind"], (parts["path"] or "").strip("/")
    seeds = [_parse_seed(each, kind) for each in parts["hosts"].split(",")]
    if None in seeds:
        raise invalid_url_error(url, f"{_SEED_RULE}{ENCODING_RULE}")
    service = None
    if kind == "sentinel":
        service, _, path = path.partition("/")
        service = unquote(service)
        if not service:
            raise invalid_url_error(
                url,
                "After the hosts, name the primary that the Sentinels watch, as in "
                "redis+sentinel://HOST:26379/mymaster/0.",
            )
    if not _DATABASE.fullmatch(path):
        raise invalid_url_error(url, "The part after the last slash is the number of the database.")
    if kind == "cluster" and path.strip("0"):
        raise invalid_url_error(url, "A Redis Cluster has the database 0 only.")
    options = parse_qsl(parts["query"] or "", keep_blank_values=True)
    names = (_REMAP_OPTION, *(_SENTINEL_OPTIONS if kind == "sentinel" else ()))
    own_options = {name: value for name, value in options if name in names}
    query = urlencode([each for each in options if each[0] not in names])
    user = "" if parts["user"] is None else f"{parts['user']}@"
    # redis-py needs a host; the address of each server replaces it. Without a database in the URL
    # there is none here: otherwise it would have precedence over the option db.
    server_url = f"{parts['scheme']}://{user}localhost/{path}" + (query and f"?{query}")
    return GroupUrl(
        tuple(seed for seed in seeds if seed is not None),
        service,
        server_url,
        own_options.get("sentinel_username"),
        own_options.get("sentinel_password"),
        _parse_remap(own_options[_REMAP_OPTION]) if _REMAP_OPTION in own_options else None,
    )


def _parse_seed(text: str, kind: str) -> Address | None:
    seed = _SEED.fullmatch(text)
    port = int(seed["port"] or _DEFAULT_PORTS[kind]) if seed else 0
    if seed is None or not 0 < port <= _MAX_PORT:
        return None
    return Address(seed["host"].strip("[]"), port)


def _parse_remap(text: str) -> AddressRemap:
    """Return the function that the option ``address_remap`` of a URL describes."""
    targets: dict[tuple[str, int | None], tuple[str, int | None]] = {}
    for pair in text.split(","):
        sides = pair.split("=")
        reported, target = (
            map(_parse_remap_side, sides) if len(sides) == 2 else (None, None)  # noqa: PLR2004
        )
        if reported is None or target is None:
            raise InvalidFormat(_REMAP_OPTION, value=pair, hint=_REMAP_RULE)
        targets[reported] = target

    def remap(address: tuple[str, int]) -> tuple[str, int]:
        host, port = targets.get(address) or targets.get((address[0], None)) or address
        return host, port or address[1]

    return remap


def _parse_remap_side(text: str) -> tuple[str, int | None] | None:
    side = _SEED.fullmatch(text)
    if side is None:
        return None
    port = None if side["port"] is None else int(side["port"])
    is_valid = port is None or 0 < port <= _MAX_PORT
    return (side["host"].strip("[]"), port) if is_valid else None


def invalid_url_error(url: str, rule: str) -> InvalidFormat:
    """Return the error for a URL; it shows nothing that may be part of a password."""
    masked = mask_secrets(url)
    return InvalidFormat("url", value=masked, hint=rule)


def _scheme_error(url: str) -> InvalidFormat:
    schemes = (
        "A URL begins with redis://, rediss:// (TLS), unix://, memory://, redis+cluster:// or "
        "redis+sentinel://."
    )
    if not url.strip():
        return InvalidFormat("url", value=url, hint="Is the variable with the URL set?")
    if _ADDRESS.fullmatch(url):
        return InvalidFormat(
            "url", value=url, hint=f"The scheme is missing: write 'redis://{url}'. {schemes}"
        )
    return invalid_url_error(url, schemes)


def mask_secrets(url: str) -> str:
    """Return the scheme, host, port and database of a URL, with stars for invalid parts."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if _ADDRESS.fullmatch(url) else "***"
    before, _, location = rest.rpartition("@")
    if "?" in before or "#" in before:  # the @ may be in an option or in a password
        return f"{scheme}://***"
    location = location.partition("?")[0]
    if scheme == "unix":
        return f"{scheme}://{location}"
    addresses, slash, database = location.partition("/")
    masked = ",".join(_mask_address(each) for each in addresses.split(","))
    if scheme.endswith("+sentinel") and _SERVICE.fullmatch(database):
        return f"{scheme}://{masked}{slash}{database}"
    return f"{scheme}://{masked}{slash}{database if _DATABASE.fullmatch(database) else '***'}"


def _mask_address(address: str) -> str:
    host, colon, port = address.rpartition(":") if ":" in address else (address, "", "")
    masked = host if _HOST.fullmatch(host) else "***"
    return masked + (colon + (port if port.isdecimal() else "***") if colon else "")


def split_password(url: str) -> tuple[str, str | None]:
    """
    Return a URL without its password, and the decoded password; None if it has none.

    Raises:
        InvalidFormat: ``check_url`` rejects the URL.
    """
    scheme, _, rest = check_url(url).partition("://")
    netloc, slash, path = rest.partition("/")
    credentials, _, host = netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    if not colon:
        return url, None
    netloc = f"{user}@{host}" if user else host
    return f"{scheme}://{netloc}{slash}{path}", unquote(password)


def split_sentinel_password(url: str) -> tuple[str, str | None]:
    """Return a URL without the password of its Sentinels, and that password; None without one."""
    if not is_group_url(url):
        return url, None
    password = parse_group_url(url).sentinel_password
    return url if password is None else without_options(url, ("sentinel_password",)), password


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
