"""
Callers by their signatures: AWS Signature Version 4, in a header or in the query of a URL.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import parse_qsl, quote

from rsmq.web.access.principals import Principal
from rsmq.web.access.secrets import hash_token
from rsmq.web.access.users import Users
from rsmq.web.sqs.errors import SqsError

_ALGORITHM = "AWS4-HMAC-SHA256"
_WINDOW_SECONDS = 15 * 60
_MAX_EXPIRES_SECONDS = 7 * 24 * 3600
_PARTS_OF_HEADER = ("Credential", "SignedHeaders", "Signature")
_CREDENTIAL = re.compile(r"([^/]{1,128})/(\d{8})/([\w-]{1,64})/sqs/aws4_request")
_STAMP = "%Y%m%dT%H%M%SZ"
_UNSAFE = "-_.~"


@dataclass(frozen=True, slots=True)
class SignatureClaim:
    """
    A signature whose key is known and whose time is right, before the body was read.

    Attributes:
        scope: date, region, service and end of its credential.
        signed: the names of the signed headers, in their order.
        is_in_query: whether the signature is in the URL.
    """

    secret: str
    principal: Principal
    stamp: str
    scope: tuple[str, str]
    signed: tuple[str, ...]
    signature: str
    is_in_query: bool

    def verify(
        self, method: str, path: str, headers: Mapping[str, str], query: bytes, body: bytes
    ) -> Principal:
        """
        Return the caller.

        Raises:
            SqsError: the signature is not that of this request.
        """
        pairs = [
            (name, value)
            for name, value in _pairs_of(query)
            if not (self.is_in_query and name == "X-Amz-Signature")
        ]
        canonical = "\n".join(
            (
                method,
                quote(path or "/", safe="/~"),
                "&".join(sorted(f"{_quote(name)}={_quote(value)}" for name, value in pairs)),
                *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in self.signed),
                "",
                ";".join(self.signed),
                hashlib.sha256(body).hexdigest(),
            )
        )
        date, region = self.scope
        text = "\n".join(
            (
                _ALGORITHM,
                self.stamp,
                f"{date}/{region}/sqs/aws4_request",
                hashlib.sha256(canonical.encode("latin-1", "replace")).hexdigest(),
            )
        )
        key = _derive_key(self.secret, date, region)
        expected = hmac.digest(key, text.encode(), hashlib.sha256).hex()
        if not hmac.compare_digest(expected, self.signature.encode("ascii", "replace").decode()):
            raise _mismatch(
                "The request signature we calculated does not match the signature you provided. "
                "Check your secret access key, and that no proxy changes Host or the path."
            )
        return self.principal


@lru_cache(256)
def _derive_key(secret: str, date: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, "sqs", "aws4_request"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return key


def _mismatch(text: str) -> SqsError:
    return SqsError("SignatureDoesNotMatch", text, 403)


def _pairs_of(query: bytes) -> list[tuple[str, str]]:
    return parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")


def _quote(text: str) -> str:
    return quote(text.encode("latin-1"), safe=_UNSAFE)


class Signatures:
    """Finds callers by the access keys of the users file, or by the one key of a server."""

    def __init__(
        self,
        read_users: Callable[[], Users],
        key: str | None,
        has_rights: Callable[[Principal], bool],
    ) -> None:
        """
        Make it.

        Args:
            read_users: returns those who may call now.
            key: the secret of any access key, if it is the token of the only caller; else None.
            has_rights: returns whether a caller has rights in the namespace.
        """
        self._read_users, self._key, self._has_rights = read_users, key, has_rights

    def has(self, principal: Principal) -> bool:
        """Return whether a caller is still known, with the same rights."""
        users = self._read_users()
        known = (each for _, each in users.access_keys.values())
        return self._key is not None or any(principal == each for each in known)

    def read(self, headers: Mapping[str, str], query: bytes) -> SignatureClaim:
        """
        Return the signature of a request, before its body is read.

        Raises:
            SqsError: there is none, its key is not known, or it is too old.
        """
        parts, is_in_query = _find_parts(headers, query)
        credential = _CREDENTIAL.fullmatch(parts.get("Credential", ""))
        if credential is None:
            text = "The credential of the signature is not KEY/DATE/REGION/sqs/aws4_request."
            raise SqsError("InvalidClientTokenId", text, 403)
        key_id, date, region = credential.groups()
        stamp = parts.get("Date") or headers.get("x-amz-date", "")
        _check_time(stamp, date, parts.get("Expires"))
        secret, principal = self._find(key_id)
        signed = tuple(parts.get("SignedHeaders", "").split(";"))
        if len(set(signed)) < len(signed):
            raise _mismatch("A signed header is named twice.")
        needed = {"host", *({"x-amz-target"} & headers.keys())}
        if not is_in_query:
            needed.add("x-amz-date")
        if not needed <= set(signed):
            text = f"These headers must be signed: {', '.join(sorted(needed))}."
            raise _mismatch(text)
        return SignatureClaim(
            secret, principal, stamp, (date, region), signed, parts.get("Signature", ""),
            is_in_query,
        )  # fmt: skip

    def _find(self, key_id: str) -> tuple[str, Principal]:
        users = self._read_users()
        if self._key is not None:
            return self._key, users.tokens[hash_token(self._key)]
        found = users.access_keys.get(key_id)
        if found is None or not self._has_rights(found[1]):
            text = "The security token included in the request is invalid."
            raise SqsError("InvalidClientTokenId", text, 403)
        return found


def _find_parts(headers: Mapping[str, str], query: bytes) -> tuple[dict[str, str], bool]:
    kind, _, rest = headers.get("authorization", "").partition(" ")
    if kind == _ALGORITHM:
        parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
        # A header has no time of its own: one that is added to it is not signed.
        return {name: parts.get(name, "") for name in _PARTS_OF_HEADER}, False
    pairs = dict(_pairs_of(query))
    if pairs.get("X-Amz-Algorithm") == _ALGORITHM:
        prefix = "X-Amz-"
        return {k.removeprefix(prefix): v for k, v in pairs.items() if k.startswith(prefix)}, True
    text = "The request must contain a valid access key ID."
    raise SqsError("MissingAuthenticationToken", text, 403)


def _check_time(stamp: str, date: str, expires: str | None) -> None:
    try:
        at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _mismatch("The date of the signature is not valid.") from None
    if not stamp.startswith(date):
        raise _mismatch("The dates of the signature differ.")
    seconds = _WINDOW_SECONDS
    if expires is not None:
        if not expires.isascii() or not expires.isdecimal():
            raise _mismatch("X-Amz-Expires is not a number.")
        seconds = min(int(expires[:9]), _MAX_EXPIRES_SECONDS)
    now = time.time()
    now_stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP)
    if now > at + seconds:
        limit = datetime.fromtimestamp(now - seconds, UTC).strftime(_STAMP)
        raise _mismatch(
            f"Signature expired: {stamp} is now earlier than {limit} ({now_stamp} - "
            f"{seconds // 60} min.)"
        )
    if at > now + _WINDOW_SECONDS:
        raise _mismatch(
            f"Signature not yet current: {stamp} is still later than {now_stamp} + 15 min."
        )
