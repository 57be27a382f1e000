"""
The keys of ``Encrypted``: from a dict, a file, the environment or a function.

A function has one argument. For None it returns ``(id, key)`` of the key for new bodies, and for an
id that key, or raises KeyError; for a key management service it decrypts a stored data key. Another
exception means that the key can't be reached now. It is called in the thread of the send or of the
access to ``Message.body``, in an event loop too, so it should be quick: each key is kept, and the
current one is asked for again after five minutes.
"""

from __future__ import annotations

import binascii
import hmac
import os
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from rsmq.codecs.interface import CannotDecode
from rsmq.errors import (
    BodyUnavailable,
    InvalidFormat,
    MissingExtra,
    MissingParameter,
    Shown,
    show,
    show_type,
)

Key = bytes | str
#: The kinds of ``Encrypted(keys=...)``.
KeySource = Mapping[str, Key] | str | os.PathLike[str] | Callable[[str | None], Any]

_KEY_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ENVIRONMENT = "env:"
_REFRESH_SECONDS = 300.0
_MAX_KEPT = 1000
_HINT = "A key is 32 bytes, or their base64, as of `openssl rand -base64 32`."


class UnknownKey(LookupError):
    """There is no key with this id."""


class _Key(NamedTuple):
    id: str
    raw: bytes
    cipher: Any


class Keys:
    """Keys by id, ready to encrypt. Several threads may use it."""

    def __init__(self, source: KeySource) -> None:
        self._ask = source if callable(source) else None
        self._keys: dict[str, _Key] = {}
        self._current: _Key | None = None
        self._asked_at = 0.0
        self._lock = threading.Lock()
        _load_cipher()
        if self._ask is None:
            for id, key in _read_source(source).items():
                found = _make_key(id, key)
                self._keys[id] = found
                self._current = self._current or found

    def current(self) -> tuple[str, Any]:
        """Return the id and the cipher of the key for new bodies."""
        found = self._find_current()
        return found.id, found.cipher

    def find(self, id: str) -> Any:
        """
        Return the cipher of a key.

        Raises:
            UnknownKey: there is none.
        """
        found = self._keys.get(id)
        if found is None:
            if self._ask is None:
                raise UnknownKey(id)
            try:
                key = self._call(id)
            except KeyError:
                raise UnknownKey(id) from None
            found = _make_key(id, key)
            if len(self._keys) >= _MAX_KEPT:
                self._keys = {}
            self._keys[id] = found
        return found.cipher

    def keyed(self, value: str) -> str:
        """Return a hash of a value with the current key, 43 characters."""
        derived = hmac.digest(self._find_current().raw, b"rsmq keyed", "sha256")
        digest = hmac.digest(derived, value.encode(), "sha256")
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _find_current(self) -> _Key:
        found = self._current
        is_recent = self._ask is None or monotonic() - self._asked_at < _REFRESH_SECONDS
        if found is not None and is_recent:
            return found
        assert self._ask is not None  # noqa: S101 - other sources have a current key
        with self._lock:
            found = _make_key(*self._call(None))
            self._keys[found.id] = self._current = found
            self._asked_at = monotonic()
        return found

    def _call(self, id: str | None) -> Any:
        """Call the function; raises KeyError if it has no such key."""
        assert self._ask is not None  # noqa: S101 - the callers have looked
        try:
            return self._ask(id)
        except KeyError:
            if id is not None:
                raise
            raise BodyUnavailable("The key for new bodies") from None
        except Exception as error:
            what = "The key for new bodies" if id is None else f"The key {id}"
            raise BodyUnavailable(what) from error

    def __repr__(self) -> str:
        return f"<{', '.join(self._keys) or 'of a function'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Keys, (self._ask or {key.id: key.raw for key in self._keys.values()},)


def _make_key(id: object, key: object) -> _Key:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        hint = "An id of a key has 1 to 64 characters of A-Z a-z 0-9 . _ -"
        raise InvalidFormat("key id", value=show(id), hint=hint)
    raw = key
    if isinstance(key, str):
        try:
            raw = binascii.a2b_base64(key, strict_mode=True)
        except ValueError:
            raw = b""
    if not isinstance(raw, bytes) or len(raw) != _KEY_BYTES:
        raise InvalidFormat("key", value=Shown(id), hint=_HINT)
    return _Key(id, raw, _load_cipher()(raw))


def check_key_id(parameters: tuple[str, ...]) -> str:
    """
    Return the id of a key in a step.

    Raises:
        CannotDecode: it is not one.
    """
    if len(parameters) != 1 or not _ID.fullmatch(parameters[0]):
        raise CannotDecode("The id of the key of the body is damaged")
    return parameters[0]


def _read_source(source: object) -> Mapping[str, Any]:
    """Return keys by id, the first one for new bodies; they are not checked."""
    found: Mapping[str, Any]
    if isinstance(source, Mapping):
        found = source
    elif isinstance(source, str) and source.startswith(_ENVIRONMENT):
        name = source.removeprefix(_ENVIRONMENT)
        if not os.environ.get(name):
            raise MissingParameter(f"environment variable {name}")
        found = _parse(os.environ[name], source)
    elif isinstance(source, str | os.PathLike):
        found = _parse(Path(source).read_text(encoding="utf-8"), os.fspath(source))
    else:
        hint = "Pass a dict, the path of a file, 'env:NAME', or a function."
        raise InvalidFormat("keys", value=show_type(source), hint=hint)
    if not found:
        raise InvalidFormat("keys", value=Shown("no key"), hint="Pass at least one key.")
    return found


def _parse(text: str, where: str) -> dict[str, str]:
    """Return the keys of a file or of a variable."""
    entries = [each.partition(":") for each in re.split(r"[\s,]+", text) if each]
    if not all(key for _, _, key in entries):
        raise InvalidFormat(
            "keys", value=Shown(where), hint="It has ID:BASE64 for each key, on a line of its own."
        )
    return {id: key for id, _, key in entries}


def _load_cipher() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: PLC0415 - needs an extra
    except ImportError:
        raise MissingExtra("bodies", "Encryption of bodies") from None
    return aead.AESGCM
