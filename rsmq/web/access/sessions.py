"""
Sessions of browsers: a signed cookie, so that no process stores them and all know them.

A session has an id, so that it can be ended (``ended_sessions.py``).

The key of a signature is made of what the users file stores of the user or the token. So a session
ends when its password or token changes or is removed, and the processes of a server need no shared
secret. A user who can read the users file can make sessions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rsmq.web.access.principals import Principal
from rsmq.web.access.secrets import hash_token
from rsmq.web.access.users import Users

SESSION_SECONDS = 7 * 24 * 3600
_PURPOSE = b"session of rsmq web"
#: Characters of a payload: its name is checked only after it has been decoded.
_MAX_PAYLOAD = 1024
_ID_BYTES = 12


def cookie_name(host: str) -> str:
    """Return the name of the cookie: browsers send cookies to all ports of a host."""
    return f"rsmq-{hashlib.sha256(host.lower().encode(errors='replace')).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Session:
    """
    A valid session.

    Attributes:
        owner: stands for the user with this password, or for the token.
        key: the owner, a dot and the id of the session.
        begun_ms: when it has begun, Unix ms.
    """

    principal: Principal
    owner: str
    key: str
    begun_ms: int


def session_of_user(users: Users, name: str) -> str:
    """Return the value of a cookie for a user whose password was right."""
    return _sign("user", name, users.passwords[name])


def session_of_token(token: str) -> str:
    """Return the value of a cookie for a token that is known."""
    digest = hash_token(token)
    return _sign("token", _label_of(digest), digest)


def find_session(users: Users, headers: Mapping[str, str]) -> Session | None:
    """Return the session of a request by its signature and its time; it may have been ended."""
    value = read_cookie(headers, cookie_name(headers.get("host", "")))
    if not value:
        return None
    payload, _, signature = value.partition(".")
    try:
        kind, name, begun_ms, id = decode_payload(payload, _MAX_PAYLOAD)
        is_over = begun_ms + SESSION_SECONDS * 1000 < time.time() * 1000
    except (ValueError, TypeError):
        return None
    if is_over or not isinstance(name, str):
        return None
    if kind == "user":
        secret = users.passwords.get(name)
        principal = users.principals.get(name)
    else:
        secret = next((each for each in users.tokens if _label_of(each) == name), None)
        principal = users.tokens.get(secret or "")
    # As bytes: texts that are not ASCII can't be compared.
    sent, expected = signature.encode(errors="replace"), _signature(payload, secret or "").encode()
    if secret is None or principal is None or not hmac.compare_digest(sent, expected):
        return None
    owner = _owner_of(kind, name, secret)
    return Session(principal, owner, f"{owner}.{id}", begun_ms)


def owners_of(users: Users, name: str) -> list[str]:
    """Return the owners of the sessions of a user, and of the tokens with this name."""
    owners = [_owner_of("user", name, users.passwords[name])] if name in users.passwords else []
    for digest, principal in users.tokens.items():
        if principal.name == name:
            owners.append(_owner_of("token", _label_of(digest), digest))
    return owners


def _owner_of(kind: str, name: str, secret: str) -> str:
    return _label_of(f"{kind} {name} {secret}")


def decode_payload(text: str, max_length: int) -> Any:
    """
    Return the JSON content of a cookie.

    Raises:
        ValueError: it is longer than ``max_length`` characters, or not valid.
    """
    if len(text) > max_length:
        raise ValueError("The cookie is too long")
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=="))
    except RecursionError:
        raise ValueError("The cookie is nested too deeply") from None


def read_cookie(headers: Mapping[str, str], name: str) -> str | None:
    """Return the value of a cookie."""
    # By hand: http.cookies takes a time that grows with the square of the length.
    for each in reversed(headers.get("cookie", "").split(";")):
        key, _, value = each.partition("=")
        if key.strip() == name:
            return value.strip()
    return None


def _sign(kind: str, name: str, secret: str) -> str:
    id = secrets.token_urlsafe(_ID_BYTES)
    content = json.dumps([kind, name, int(time.time() * 1000), id]).encode()
    payload = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return f"{payload}.{_signature(payload, secret)}"


def _signature(payload: str, secret: str) -> str:
    key = hashlib.sha256(_PURPOSE + secret.encode()).digest()
    return hmac.digest(key, payload.encode(errors="replace"), hashlib.sha256).hex()


def _label_of(text: str) -> str:
    """Return what stands for a text, such as the digest of a token, and does not tell it."""
    return hashlib.sha256(_PURPOSE + b" label" + text.encode(errors="replace")).hexdigest()[:16]
