"""
The configuration file and its profiles: a url, a namespace, and whether any name is allowed.

    profile = "local"              # the one that counts where nothing else is said

    [profiles.local]
    url = "redis://127.0.0.1:6379/0"

    [profiles.production]
    url = "rediss://user:password@redis.example.com:6380/0"
    ns = "shop"
    any_names = false
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmq.cli.app.errors import Failed

_KEYS: dict[str, type] = {"url": str, "ns": str, "any_names": bool}


@dataclass(frozen=True, slots=True)
class Profile:
    """
    What a profile says; None where it says nothing.

    Attributes:
        url: of Redis.
        ns: the namespace.
        any_names: whether queue names go that Node would refuse.
    """

    url: str | None = None
    ns: str | None = None
    any_names: bool | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """
    The configuration file.

    Attributes:
        path: where it is, or would be.
        profiles: by name.
        default: the name of the one that counts where nothing else is said; None without one.
    """

    path: Path
    profiles: Mapping[str, Profile]
    default: str | None

    def profile(self, name: str) -> Profile:
        """
        A profile.

        Raises:
            Failed: there is none of this name.
        """
        if name in self.profiles:
            return self.profiles[name]
        known = ", ".join(sorted(self.profiles)) or "none"
        raise Failed(
            f"There is no profile {name!r} in {self.path}",
            code="profile",
            hint=f"It has: {known}. A profile is a table [profiles.{name}] with url and ns.",
        )


def config_path() -> Path:
    """Where the configuration file is, or would be."""
    if named := os.environ.get("RSMQ_CONFIG"):
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "rsmq" / "config.toml"


def read_config() -> Config:
    """
    The configuration file; an empty one where there is none.

    Raises:
        Failed: RSMQ_CONFIG names a file that is not there; the file can't be read, is not TOML, or
            holds something else than profiles.
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
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failed(f"{path} is no TOML: {error}", code="config") from None
    return _config(path, found)


def _config(path: Path, found: dict[str, Any]) -> Config:
    _known(path, "", found, {"profile": str, "profiles": dict})
    profiles = found.get("profiles", {})
    _known(path, "profiles.", profiles, dict.fromkeys(profiles, dict))
    for name, each in profiles.items():
        _known(path, f"profiles.{name}.", each, _KEYS)
    made = {name: Profile(**each) for name, each in profiles.items()}
    return Config(path, made, found.get("profile"))


_KINDS = {str: "a text", bool: "true or false", dict: "a table"}


def _known(path: Path, place: str, found: dict[str, Any], keys: Mapping[str, type]) -> None:
    for key, value in found.items():
        if key not in keys:
            raise Failed(
                f"{path}: the key {place}{key} is not known",
                code="config",
                hint=f"Known here: {', '.join(keys)}.",
            )
        if not isinstance(value, keys[key]):
            raise Failed(f"{path}: {place}{key} must be {_KINDS[keys[key]]}", code="config")
