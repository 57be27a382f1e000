"""
The atomic steps: one ``.lua`` file an operation, and the loader.

A file states its contract above its code. Files that start with ``_`` are fragments: local
functions that a file takes in with a line ``-- @include _name.lua``; a fragment includes nothing.
Of a fragment a script gets those functions that it uses, for each costs time in every call.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"^-- @include (_\w+\.lua)\n", re.MULTILINE)
_FUNCTION = re.compile(r"^local function (\w+)\(.*?^end\n", re.MULTILINE | re.DOTALL)


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
    The script of an operation.

    Args:
        name: the name of its file, without ``.lua``.
    """
    folder = files(__name__)
    text = (folder / f"{name}.lua").read_text("utf-8")
    fragments = "".join((folder / name).read_text("utf-8") for name in _INCLUDE.findall(text))
    source = _INCLUDE.sub("", text)
    for function in reversed(list(_FUNCTION.finditer(fragments))):
        if f"{function[1]}(" in source:
            source = function[0] + source
    source = source.encode()
    # Redis names scripts by SHA-1; nothing is kept secret by it.
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
