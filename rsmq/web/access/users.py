"""
The users file: users with passwords, and tokens of programs.

    [users.anna]
    password = "scrypt$..."
    role = "operator"                  # viewer, operator or admin
    queues = ["orders*"]               # all by default
    namespaces = ["shop", "billing"]   # the first one of the server by default
    redact = ["customer.email"]        # values in bodies that it does not see; false sees all

    [tokens.shop]
    sha256 = "..."
    scopes = ["send"]                  # or a role
    queues = ["orders"]

    [access_keys.billing]              # of clients of SQS; a signature needs the secret itself
    id = "RSMQ..."
    secret = "..."
    role = "operator"
"""

from __future__ import annotations

import stat
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.errors.guarded_log import get_logger
from rsmq.search.json_path import JsonPath, parse_path
from rsmq.web.access.principals import NAME_OF_KEY, ROLES, Principal, scopes_of
from rsmq.web.access.secrets import hash_token, is_hash

#: For how long an empty file may be one that is being written.
_MAX_EMPTY_SECONDS = 5

_log = get_logger("rsmq.web")


@dataclass(frozen=True, slots=True)
class Users:
    """
    Those who may call.

    Attributes:
        passwords: the stored password of each user.
        principals: the users by name.
        tokens: the callers by the SHA-256 of their tokens.
        access_keys: the secrets and the callers by the ids of the access keys of SQS.
    """

    passwords: Mapping[str, str] = field(default_factory=dict)
    principals: Mapping[str, Principal] = field(default_factory=dict)
    tokens: Mapping[str, Principal] = field(default_factory=dict)
    access_keys: Mapping[str, tuple[str, Principal]] = field(default_factory=dict, repr=False)


class UsersFile:
    """The users of a file, which is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        """
        Read the file.

        Raises:
            InvalidFormat: it is not valid, or others may read it.
        """
        self._path = path
        self._stamp = _stamp_of(path)
        self._users = read_users(path)

    def read(self) -> Users:
        """
        Return the users; those of before if the file has become invalid, which is logged.

        Editors empty a file before they write it, so an empty one does not count at once.
        """
        stamp = _stamp_of(self._path)
        if stamp != self._stamp and not _is_being_written(stamp):
            self._stamp = stamp
            try:
                self._users = read_users(self._path)
            except InvalidFormat as error:
                _log.error("the users file has changed, and its users stay as before: %s", error)
        return self._users


def _stamp_of(path: Path) -> tuple[int, ...]:
    """Return what differs after a change of a file; it is empty without one."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _is_being_written(stamp: tuple[int, ...]) -> bool:
    if not stamp or stamp[2] > 0:
        return False
    age_seconds = time.time() - stamp[0] / 1e9
    return 0 <= age_seconds < _MAX_EMPTY_SECONDS


def users_of_key(key: str) -> Users:
    """Return one caller, who may do everything with this key as a token."""
    return Users(
        tokens={hash_token(key): Principal(NAME_OF_KEY, ROLES["admin"], namespaces=("*",))}
    )


def read_users(path: Path) -> Users:
    """
    Read a users file.

    Raises:
        InvalidFormat: it is not valid, or others may read it.
    """
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise _invalid(path, f"Others may read it. Correct that by: chmod 600 {path}")
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise _invalid(path, f"It can't be read: {error.strerror}") from None
    except ValueError:  # the text of the error may contain a secret
        raise _invalid(path, "It is not TOML.") from None
    try:
        return _make_users(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid(path, f"Its content is not valid: {error}. {_FORM}") from None


def _invalid(path: Path, reason: str) -> InvalidFormat:
    return InvalidFormat("users file", value=str(path), hint=reason)


_FORM = (
    "A user has password and role, a token sha256 and role or scopes, an access key id, secret and "
    "role or scopes; queues and namespaces are lists of patterns."
)
_SHA256_DIGITS = 64
#: The names in an entry beside its secret.
_RIGHTS = ("role", "scopes", "queues", "namespaces", "redact")


def _make_users(content: Mapping[str, Any]) -> Users:
    _check_names(content, {"users", "tokens", "access_keys"}, "the file")
    passwords, principals, tokens = {}, {}, {}
    for name, entry in content.get("users", {}).items():
        _check_names(entry, {"password", *_RIGHTS}, name)
        # A user behind a trusted proxy needs no password.
        if "password" in entry:
            if not is_hash(entry["password"]):
                raise ValueError(f"the password of {name} is not a hash of rsmq web-user")
            passwords[name] = entry["password"]
        principals[name] = _make_principal(name, entry)
    for name, entry in content.get("tokens", {}).items():
        _check_names(entry, {"sha256", *_RIGHTS}, name)
        digest = entry["sha256"].lower()
        if len(digest) != _SHA256_DIGITS:
            raise ValueError(f"sha256 of {name} has not {_SHA256_DIGITS} digits")
        tokens[digest] = _make_principal(name, entry)
    access_keys = {}
    for name, entry in content.get("access_keys", {}).items():
        _check_names(entry, {"id", "secret", *_RIGHTS}, name)
        if not all(isinstance(entry[each], str) and entry[each] for each in ("id", "secret")):
            raise ValueError(f"id and secret of {name} are texts")
        access_keys[entry["id"]] = entry["secret"], _make_principal(name, entry)
    return Users(passwords, principals, tokens, access_keys)


def _check_names(entry: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = set(entry) - known
    if unknown:
        raise ValueError(f"{place} has {', '.join(sorted(unknown))}")


def _make_principal(name: str, entry: Mapping[str, Any]) -> Principal:
    if ("role" in entry) == ("scopes" in entry):
        raise ValueError(f"{name} needs a role or scopes")
    if "role" in entry and entry["role"] not in ROLES:
        raise ValueError(f"{name} has the role {entry['role']!r}: it is {', '.join(ROLES)}")
    scopes = ROLES[entry["role"]] if "role" in entry else scopes_of(entry["scopes"])
    redact = _read_redact(name, entry.get("redact", []))
    queues = _read_patterns(name, "queues", entry.get("queues", ["*"]))
    if "namespaces" not in entry:
        return Principal(name, scopes, queues, redact)
    namespaces = _read_patterns(name, "namespaces", entry["namespaces"])
    return Principal(name, scopes, queues, redact, namespaces)


def _read_patterns(name: str, field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{field} of {name} is not a list of texts")
    return tuple(value)


def _read_redact(name: str, value: object) -> tuple[JsonPath, ...] | None:
    if value is False:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"redact of {name} is not false or a list of paths")
    return tuple(map(parse_path, value))
