"""
The texts of redis-py's errors, with the remedy added.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import redis.exceptions as redis_errors

from rsmq.errors.printable import format_count

#: The text that Redis adds to the error of a command if a script has called the command: Redis 6.2
#: in front of the error, 7.0 behind it, Valkey 9 without the digest.
_SCRIPT_LOCATION = re.compile(
    r"\.? script: ([0-9a-f]{40}, )?on @user_script:\s?\d+\.?"
    r"|(ERR )?Error running script \(call to f_\w+\): |@user_script:\s?\d+:\s?-?"
)

_ADVICE_BY_CODE = {
    "WRONGTYPE": "A key of queue {queue} has another type, so another program uses it. This step "
    "changed nothing. Use another queue name or namespace, or remove the key",
    "OOM": "Redis has reached maxmemory and refuses to store more. This step changed nothing. "
    "Receiving and deleting still work, and free memory",
    "NOPERM": "This Redis user does not have all rights on the keys of queue {queue}. "
    "docs/security.md lists the commands that a producer, a consumer and an administrator need",
    "CROSSSLOT": "On Redis Cluster all keys of a queue must be in one slot. Use a namespace with a "
    "hash tag, as in ns='{{rsmq}}'",
    "MOVED": "This is a node of a Redis Cluster that does not have queue {queue}. "
    "Use a URL such as 'redis+cluster://HOST:PORT' and a namespace with a hash tag, as in "
    "ns='{{rsmq}}'",
    "MISCONF": "Redis can't save to disk and refuses to store more. This step changed nothing",
    "NOREPLICAS": "Redis has fewer replicas than min-replicas-to-write. This step changed nothing",
}

#: For errors without a code of their own.
_ADVICE_BY_TEXT = {
    "cluster support disabled": "This server is not a node of a Redis Cluster: use a URL such as "
    "'redis://HOST:PORT/0'",
    "unknown command 'SENTINEL'": "This server is not a Sentinel: use the addresses of the "
    "Sentinels, or for a single server a URL such as 'redis://HOST:PORT/0'",
    "DB index is out of range": "The server does not have this database: lower the number at the "
    "end of the URL, as 0 in redis://HOST:PORT/0, or db=; Redis has 0 to 15 unless its setting "
    "databases says otherwise",
    "SELECT is not allowed in cluster mode": "A Redis Cluster has the database 0 only: remove db "
    "from the URL and from the options",
}

_UNAUTHENTICATED_TEXTS = ("Authentication required", "HELLO must be called")
_NEEDLESS_PASSWORD_TEXTS = ("no password is set", "without any password configured")
_NEEDS_LOGIN = (
    "A password is needed: put it into the URL, as in redis://:PASSWORD@HOST:6379/0, or pass "
    "password="
)
_CLOSED_TEXTS = ("reset by peer", "closed by server", "Connection lost", "Broken pipe")
_TLS_REMARK = " with TLS"


def remove_script_location(text: str) -> str:
    """Return the text of an error without the position in a script that Redis adds."""
    return _SCRIPT_LOCATION.sub("", text)


def is_unauthenticated(error: Exception) -> bool:
    """Return whether Redis refused a command because the connection sent no password."""
    return any(text in str(error) for text in _UNAUTHENTICATED_TEXTS)


def has_too_many_clients(error: BaseException) -> bool:
    """
    Return whether Redis has refused a connection because it has too many clients.

    A node of a cluster replies "max number of clients + cluster connections reached", which is a
    ResponseError of redis-py.
    """
    return "max number of clients" in str(error)


def describe_address(connection_options: Mapping[str, Any]) -> str:
    """Return the address of a server: host and port, or the path of a socket."""
    if connection_options.get("path"):
        return str(connection_options["path"])
    pool = connection_options.get("connection_pool")  # of a Sentinel
    if pool is not None:
        return f"the master {getattr(pool, 'service_name', '')} of the Sentinels"
    host = connection_options.get("host") or "localhost"
    return f"{host}:{connection_options.get('port') or 6379}"


def describe_server(pool: Any) -> str:
    """Return the address of the server of a pool, with a remark if its connections have TLS."""
    return add_tls_remark(describe_address(pool.connection_kwargs), pool.connection_class)


def add_tls_remark(address: str, connection_class: type) -> str:
    """Return an address, with a remark if this class of connections has TLS."""
    return address + (_TLS_REMARK if "ssl" in connection_class.__name__.lower() else "")


def advise_on_reply(error: Exception, code: str, queues: str) -> None:
    """
    Add the remedy to the text of an error that Redis replied; unknown errors stay unchanged.

    Args:
        error: the error of redis-py; it keeps its class.
        queues: the queues of the call, as shown to the caller; empty for a call without a queue.
    """
    advice = _ADVICE_BY_CODE.get(code)
    if advice is not None:
        _append(error, advice.format(queue=queues or "(the index of queues)"))
        return
    for text, advice in _ADVICE_BY_TEXT.items():
        if text in str(error):
            _append(error, advice)


def name_command(error: Exception, command: Sequence[bytes]) -> None:
    """
    Add a plain command and its first argument to the text of an error that Redis replied to it.

    An error that concerns the server or the connection, such as MOVED, stays unchanged.
    """
    if type(error) in {redis_errors.ResponseError, redis_errors.NoPermissionError}:
        words = (word.decode("utf-8", "backslashreplace") for word in command[:2])
        _append(error, f"The command is {' '.join(words)}")


def advise_on_connection(error: Exception, address: Callable[[], str], *, is_sent: bool) -> None:
    """
    Add what to check to the text of an error of a connection; other errors stay unchanged.

    Args:
        error: the error of redis-py; it keeps its class.
        address: returns the address of the server.
        is_sent: whether any part of the command may have been sent.
    """
    text = str(error)
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        if is_unauthenticated(error):
            _append(error, _NEEDS_LOGIN)
        elif any(each in text for each in _NEEDLESS_PASSWORD_TEXTS):
            _append(error, f"Redis at {address()} has no password: remove it from the URL")
        else:
            _append(error, f"Check the user and the password for Redis at {address()}")
    elif isinstance(error, redis_errors.BusyLoadingError | redis_errors.ReadOnlyError):
        return
    elif isinstance(error, redis_errors.MaxConnectionsError):
        _append(error, "All connections of the pool are in use: raise max_connections")
    elif has_too_many_clients(error):
        _append(
            error,
            f"Redis at {address()} has as many clients as its setting maxclients allows. Close "
            "connections that are not used, or raise maxclients",
        )
    elif isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError | OSError):
        if is_sent:
            _append(error, f"Redis at {address()} may have run the call, or not")
        else:
            _append(error, _advise_on_connecting(error, address()))


def _advise_on_connecting(error: Exception, address: str) -> str:
    text = str(error)
    if _has_cause(error, socket.gaierror):
        return f"Check the host name in {address!r}"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return f"Check ssl_ca_certs, and the names in the certificate of {address}"
    has_tls = _TLS_REMARK in address
    # A port without TLS waits for more of the command; one with TLS closes the connection, perhaps
    # before the next command is written.
    signs = ("Timeout", "SSL") if has_tls else _CLOSED_TEXTS
    advice = f"Is Redis running at {address}?"
    if any(each in text for each in signs):
        ports = "without TLS, use redis:// instead of rediss://"
        other_ports = "with TLS, use rediss:// instead of redis://"
        advice += f" For a port {ports if has_tls else other_ports}"
    return advice


def advise_on_large_body(error: Exception, size: int) -> None:
    """
    Add what to check to the text of an error of a call with a large body, which may be its cause.

    Args:
        error: the error of redis-py; it keeps its class.
        size: the bytes of the body.
    """
    is_lost = isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError | OSError)
    if is_lost or "invalid bulk length" in str(error):
        _append(
            error,
            f"A body has {format_count(size, 'byte')}: check proto-max-bulk-len and "
            "client-query-buffer-limit of the server",
        )


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    seen = 0
    while error is not None and seen < 5:  # noqa: PLR2004 - a longer chain is not of one failure
        if isinstance(error, kind):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def _append(error: Exception, advice: str) -> None:
    text = remove_script_location(str(error)).strip()
    if advice not in text:  # an error of a shared connection is raised in several calls
        dot = "" if not text or text.endswith((".", "?", "!")) else "."
        error.args = (f"{text}{dot} {advice}".strip(),)
