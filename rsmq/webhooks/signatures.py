"""
Signatures of Standard Webhooks: their secrets, and the headers of a request.

Source: https://github.com/standard-webhooks/standard-webhooks, version 1.0.0.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path

from rsmq.errors import InvalidFormat
from rsmq.errors.printable import format_count

_PREFIX = "whsec_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,159}")
_MIN_SECRET_BYTES, _MAX_SECRET_BYTES = 24, 64
#: A new secret and the one that it replaces.
MAX_SECRETS = 2
_RULE = (
    f"A secret is base64 of {_MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES} random bytes, with or "
    f"without {_PREFIX} before it. openssl rand -base64 32 makes one"
)


def check_variable(name: object) -> str:
    """
    Return the name of an environment variable that has a secret, if it is one.

    Raises:
        InvalidFormat: it is not; it may be the secret itself, so the error does not show it.
    """
    if isinstance(name, str) and _VARIABLE.fullmatch(name) and not name.startswith(_PREFIX):
        return name
    raise InvalidFormat(
        "secret_env",
        value="(not shown)",
        hint="It is the name of an environment variable that has the secret, and not the secret.",
    )


def parse_secrets(secret: str | bytes | Sequence[str | bytes] | None) -> tuple[bytes, ...]:
    """
    Return the keys of secrets. No error contains a secret.

    Args:
        secret: a secret, two while one replaces the other, or None: requests are not signed. A str
            is base64, with or without ``whsec_``; bytes are the key itself.

    Raises:
        InvalidFormat: it is not a secret, is too short or too long, or there are more than two.
    """
    if secret is None:
        return ()
    listed = [secret] if isinstance(secret, str | bytes) else list(secret)
    if not 1 <= len(listed) <= MAX_SECRETS:
        raise InvalidFormat(
            "secret",
            value=format_count(len(listed), "secret"),
            hint="Pass one, or two while the second replaces the first.",
        )
    return tuple(_parse_secret(each) for each in listed)


def read_secrets(path: Path) -> tuple[bytes, ...]:
    """
    Return the keys of the secrets in a file: one on each line, at most two.

    Empty lines and lines that begin with ``#`` are ignored.

    Raises:
        OSError: the file can't be read.
        InvalidFormat: the file has no secret, or more than two, or one is invalid.
    """
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    return parse_secrets([line for line in lines if line and not line.startswith("#")])


class Signer:
    """Signs requests with one key, or with two while one replaces the other."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """
        Make it.

        Args:
            keys: the keys; there is one signature for each.
        """
        self._prepared = [hmac.new(key, digestmod=hashlib.sha256) for key in keys]

    def sign(self, id: str, timestamp: int, body: bytes) -> str:
        """
        Return the value of the header ``webhook-signature``.

        Args:
            id: the message's id.
            timestamp: Unix seconds.
            body: the body of the request.
        """
        content = b"%s.%d.%s" % (id.encode(), timestamp, body)
        return " ".join([_sign(prepared, content) for prepared in self._prepared])


def _sign(prepared: hmac.HMAC, content: bytes) -> str:
    # Not hmac.digest: it releases the GIL, and then waits for the other threads of a worker.
    signing = prepared.copy()
    signing.update(content)
    return "v1," + binascii.b2a_base64(signing.digest(), newline=False).decode()


def _parse_secret(secret: object) -> bytes:
    if isinstance(secret, bytes):
        key = secret
    else:
        try:
            if not isinstance(secret, str):
                raise ValueError  # noqa: TRY004, TRY301 - the same error as for a wrong text
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (ValueError, binascii.Error):
            raise InvalidFormat("secret", value="(not shown)", hint=f"{_RULE}.") from None
    if not _MIN_SECRET_BYTES <= len(key) <= _MAX_SECRET_BYTES:
        raise InvalidFormat("secret", value=format_count(len(key), "byte"), hint=f"{_RULE}.")
    return key
