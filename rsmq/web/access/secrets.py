"""
Passwords (scrypt) and tokens (SHA-256), as the users file has them.

A token has 256 random bits, so a fast hash is enough. A password may be guessed, so its hash is
slow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

_N, _R, _P = 2**14, 8, 1
_MAX_MEMORY = 64 * 1024 * 1024
_PREFIX = "scrypt"
_PARTS = 6
_ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_TOKEN_PREFIX = "rsmq_"  # noqa: S105 - finds a token that was published by mistake


def hash_password(password: str) -> str:
    """Return the text for the users file."""
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _N, _R, _P)
    numbers = f"{_N}${_R}${_P}"
    return f"{_PREFIX}${numbers}${_encode(salt)}${_encode(digest)}"


def is_password(password: str, stored: str) -> bool:
    """Return whether a password is the stored one. Takes some 50 ms of a processor."""
    parts = stored.split("$")
    if len(parts) != _PARTS or parts[0] != _PREFIX:
        return False
    try:
        numbers = [int(each) for each in parts[1:4]]
        salt, digest = (base64.b64decode(each, validate=True) for each in parts[4:])
        return hmac.compare_digest(_scrypt(password, salt, *numbers), digest)
    except ValueError:
        return False


def is_hash(stored: str) -> bool:
    """Return whether a text has the form that ``hash_password`` returns."""
    parts = stored.split("$")
    return len(parts) == _PARTS and parts[0] == _PREFIX


def make_token() -> str:
    """Return a new token."""
    return _TOKEN_PREFIX + secrets.token_urlsafe(32)


def make_access_key() -> tuple[str, str]:
    """Return the id and the secret of a new access key of SQS, in the form of those of AWS."""
    id = "".join(secrets.choice(_ID_CHARACTERS) for _ in range(16))
    return f"RSMQ{id}", secrets.token_urlsafe(30)


def hash_token(token: str) -> str:
    """Return the text for the users file."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"), salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY
    )


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode()
