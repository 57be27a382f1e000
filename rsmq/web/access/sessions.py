"""
Sessions of browsers: a signed cookie, so that no process stores them and all know them.

The key of a signature is made of what the users file stores of the user or the token. So a session
ends when its password or token changes or is removed, and the processes of a server need no shared
secret. Who can read the users file can make sessions.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from rsmq.web.access.principals import Principal
from rsmq.web.access.secrets import hash_token
from rsmq.web.access.users import Users

SESSION_SECONDS = 7 * 24 * 3600
_PURPOSE = b"session of rsmq web"
#: Characters of a payload: its name is checked only after it has been decoded.
_MAX_PAYLOAD = 1024


def cookie_name(host: str) -> str:
    """Return the name of the cookie: browsers send cookies to all ports of a host."""
    return f"rsmq-{hashlib.sha256(host.lower().encode(errors='replace')).hexdigest()[:8]}"


def session_of_user(users: Users, name: str) -> str:
    """Return the value of a cookie for a user whose password was right."""
    return _sign("user", name, users.passwords[name])


def session_of_token(token: str) -> str:
    """Return the value of a cookie for a token that is known."""
    digest = hash_token(token)
    return _sign("token", _label_of(digest), digest)


def find_session(users: Users, headers: Mapping[str, str]) -> Principal | None:
    """Return the caller of a valid session."""
    value = read_cookie(headers, cookie_name(headers.get("host", "")))
    if not value:
        return None
    payload, _, signature = value.partition(".")
    try:
        kind, name, ends = decode_payload(payload, _MAX_PAYLOAD)
        is_over = not isinstance(ends, int) or ends < time.time()
    except (ValueError, TypeError):
        return None
    if is_over or not isinstance(name, str):
        return None
    if kind == "user":
        secret = users.passwords.get(name)
        found = users.principals.get(name)
    else:
        secret = next((each for each in users.tokens if _label_of(each) == name), None)
        found = users.tokens.get(secret or "")
    if secret is None:
        return None
    # As bytes: texts that are not ASCII can't be compared.
    sent, expected = signature.encode(errors="replace"), _signature(payload, secret).encode()
    return found if hmac.compare_digest(sent, expected) else None


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
    content = json.dumps([kind, name, int(time.time()) + SESSION_SECONDS]).encode()
    payload = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return f"{payload}.{_signature(payload, secret)}"


def _signature(payload: str, secret: str) -> str:
    key = hashlib.sha256(_PURPOSE + secret.encode()).digest()
    return hmac.digest(key, payload.encode(errors="replace"), hashlib.sha256).hex()


def _label_of(digest: str) -> str:
    """Return what finds a token by its digest, and does not tell the digest."""
    return hashlib.sha256(_PURPOSE + b" label" + digest.encode()).hexdigest()[:16]
