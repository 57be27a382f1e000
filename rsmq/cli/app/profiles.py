"""
The configuration file and its profiles: a url, a namespace or several, and whether any name is
allowed.

    profile = "local"              # the default profile

    [profiles.local]
    url = "redis://127.0.0.1:6379/0"

    [profiles.production]
    url = "rediss://user:password@redis.example.com:6380/0"
    ns = "shop"
    any_names = false

    [profiles.partitions]
    ns = ["{shop.0}", "{shop.1}"]  # for commands that work on several
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any

from rsmq.cli.app.errors import Failed

_Type = type | UnionType

_KEYS: dict[str, _Type] = {"url": str, "ns": str | list, "any_names": bool}


@dataclass(frozen=True, slots=True)
class Profile:
    """
    A profile. Settings that it does not contain are None.

    Attributes:
        url: the URL of Redis.
        ns: the namespace, or a list of several.
        any_names: whether queue names are allowed that the Node client refuses.
    """

    url: str | None = None
    ns: str | list[str] | None = None
    any_names: bool | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """
    The configuration file.

    Attributes:
        path: the path of the file, which need not exist.
        default: the name of the profile to use if none is named elsewhere; None without one.
    """

    path: Path
    profiles: Mapping[str, Profile]
    default: str | None

    def profile(self, name: str) -> Profile:
        """
        Return a profile.

        Raises:
            Failed: there is no profile of this name.
        """
        if name in self.profiles:
            return self.profiles[name]
        names = ", ".join(sorted(self.profiles)) or "none"
        raise Failed(
            f"There is no profile {name!r} in {self.path}",
            code="profile",
            hint=f"It has: {names}. A profile is a table [profiles.{name}] with url and ns.",
        )


def config_path() -> Path:
    """Return the path of the configuration file, which need not exist."""
    if named := os.environ.get("RSMQ_CONFIG"):
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "rsmq" / "config.toml"


def read_config() -> Config:
    """
    Read the configuration file. A missing file counts as an empty one.

    Raises:
        Failed: RSMQ_CONFIG names a file that does not exist; the file can't be read, is not TOML,
            or contains a key or a type that is not allowed.
    """
    path = config_path()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if os.environ.get("RSMQ_CONFIG"):
            raise Failed(
                f"There is no file {path}", code="config", hint="RSMQ_CONFIG names it."
            ) from None
        return Config(path, {}, None)
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} can't be read: {error}", code="config") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failed(f"{path} is not TOML: {error}", code="config") from None
    return _parse_config(path, document)


def _parse_config(path: Path, document: dict[str, Any]) -> Config:
    _check_keys(path, "", document, {"profile": str, "profiles": dict})
    profiles = document.get("profiles", {})
    _check_keys(path, "profiles.", profiles, dict.fromkeys(profiles, dict))
    for name, values in profiles.items():
        _check_keys(path, f"profiles.{name}.", values, _KEYS)
    profiles_by_name = {name: Profile(**values) for name, values in profiles.items()}
    return Config(path, profiles_by_name, document.get("profile"))


_TYPE_NAMES: dict[_Type, str] = {
    str: "a text", str | list: "a text or a list of texts", bool: "true or false", dict: "a table",
}  # fmt: skip


def _check_keys(
    path: Path, prefix: str, document: dict[str, Any], keys: Mapping[str, _Type]
) -> None:
    for key, value in document.items():
        if key not in keys:
            raise Failed(
                f"{path}: the key {prefix}{key} is not known",
                code="config",
                hint=f"Known here: {', '.join(keys)}.",
            )
        is_wrong_list = isinstance(value, list) and (
            not value or any(not isinstance(each, str) for each in value)
        )
        if not isinstance(value, keys[key]) or is_wrong_list:
            raise Failed(f"{path}: {prefix}{key} must be {_TYPE_NAMES[keys[key]]}", code="config")
