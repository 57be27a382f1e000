"""
The options of redis-py's connections: defaults, and checks before a connection is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from rsmq.errors import InvalidFormat
from rsmq.transport.url import ENCODING_RULE, check_host, invalid_url_error
from rsmq.wire.limits import check_duration

_SHORTEST_TIMEOUT_SECONDS = 0.001

#: The rules of the options in URLs that redis-py converts to numbers.
_RULES = {
    "db": "Pass a whole number.",
    "health_check_interval": "Pass a whole number of seconds.",
    "max_connections": "Pass a whole number.",
    "socket_connect_timeout": "Pass a number of seconds.",
    "socket_timeout": "Pass a number of seconds.",
    "timeout": "Pass a number of seconds.",
}


def create_pool(url: str, create: Callable[[], Any]) -> Any:
    """
    Create a pool, and check that it can create connections. No connection is opened.

    Args:
        url: the URL that an error shows, without its secrets.

    Raises:
        InvalidFormat: redis-py rejects the URL, one of its options or one of the other options.
        InvalidValue: a timeout is not a positive number of seconds.
    """
    invalid: InvalidFormat
    try:
        pool = create()
        pool.connection_class(**pool.connection_kwargs)
    except ValueError as error:
        option = re.match(r"Invalid value for '(\w+)' in connection URL", str(error))
        invalid = _make_url_error(url, option[1] if option else None)
    except TypeError as error:
        option = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        rule = "There is no such option" if option else "redis-py does not accept their types"
        invalid = InvalidFormat(
            option[1] if option else "options",
            hint=f"{rule}. Pass options of redis-py's connections, as in socket_timeout=5.",
        )
    else:
        _check_options(pool.connection_kwargs)
        return pool
    raise invalid  # here: as its context, the other error would show the password


def _make_url_error(url: str, option: str | None) -> InvalidFormat:
    """Return the error for a URL that redis-py rejects, because of an option if it names one."""
    query = url.partition("?")[2]
    value = dict(parse_qsl(query)).get(option or "")
    # With an @ behind it, or beside one, the value may be a part of a password.
    is_public = "@" not in query and "password" not in query.lower()
    if option is not None and value is not None and is_public:
        rule = _RULES.get(option, "redis-py does not accept this value.")
        return InvalidFormat(option, value=value, hint=rule)
    wrong = f"option {option}" if option else "port, the database or an option"
    return invalid_url_error(url, f"The {wrong} is invalid. {ENCODING_RULE}")


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the options that redis-py uses without a check."""
    check_host(str(options.get("host") or ""))
    for name in ("socket_timeout", "socket_connect_timeout"):
        if options.get(name) is not None:
            check_duration(name, options[name], low=_SHORTEST_TIMEOUT_SECONDS)


def add_default_options(options: dict[str, Any], retry: object) -> dict[str, Any]:
    """Return options of redis-py for our own connections; ``options`` take precedence."""
    # RESP2 needs no HELLO, which some proxies don't have. Only a tracking connection needs RESP3.
    defaults = {
        "retry": retry,
        "protocol": 2,
        "socket_timeout": 5.0,
        "socket_connect_timeout": 5.0,
    }
    # The client that makes the pool would open a connection of its own, to the host of its URL.
    own = {name: value for name, value in options.items() if name != "single_connection_client"}
    return defaults | own
