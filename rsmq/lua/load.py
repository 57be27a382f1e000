"""
The loader of Lua scripts.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"^ *-- @include (\w+\.lua)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """
    A Lua script with the hash by which Redis identifies it.

    Attributes:
        name: the name of its file, without ``.lua``; usually also of its builder and method.
        source: the text, with its fragments.
        sha1: the SHA-1 of the text, hexadecimal, which EVALSHA needs.
    """

    name: str
    source: bytes
    sha1: bytes


@cache
def load(name: str) -> Script:
    """
    Return the script of an operation, with its ``@include`` lines replaced by fragments.

    Args:
        name: the name of its file, without ``.lua``.
    """
    folder = files("rsmq.lua")

    def read_fragment(line: re.Match[str]) -> str:
        return (folder / "fragments" / line[1]).read_text("utf-8")

    source = _INCLUDE.sub(read_fragment, (folder / f"{name}.lua").read_text("utf-8")).encode()
    # Redis identifies scripts by SHA-1, which protects nothing here.
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
