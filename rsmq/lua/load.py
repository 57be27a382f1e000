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
    A Lua script, ready to be called.

    Attributes:
        name: the operation's name, as of its file, its builder and its method.
        source: the text, with its fragments.
        sha1: the name by which Redis knows the text, hexadecimal.
    """

    name: str
    source: bytes
    sha1: bytes


@cache
def load(name: str) -> Script:
    """
    Return the script of an operation, with its fragments in place of the ``@include`` lines.

    Args:
        name: the name of its file, without ``.lua``.
    """
    folder = files("rsmq.lua")

    def fragment(line: re.Match[str]) -> str:
        return (folder / "fragments" / line[1]).read_text("utf-8")

    source = _INCLUDE.sub(fragment, (folder / f"{name}.lua").read_text("utf-8")).encode()
    # Redis names scripts by SHA-1; nothing is kept secret by it.
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
