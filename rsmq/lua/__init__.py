"""
The atomic steps: one ``.lua`` file an operation, and the loader.

A file states its contract above its code. Files that start with ``_`` are fragments: local
functions that a file takes in with a line ``-- @include _name.lua``; a fragment includes nothing.
Of a fragment a script gets those functions that it uses, for each costs time in every call; those
that are seldom used may be taken in inside a block. Numbers go to commands as text, which Redis
takes as it is.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"^ *-- @include (_\w+\.lua)\n", re.MULTILINE)
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
    # From the last to the first: what uses a function stands behind it.
    for include in reversed(list(_INCLUDE.finditer(text))):
        fragment = (folder / include[1]).read_text("utf-8")
        before, after = text[: include.start()], text[include.end() :]
        for function in reversed(list(_FUNCTION.finditer(fragment))):
            if f"{function[1]}(" in after:
                after = function[0] + after
        text = before + after
    source = text.encode()
    # Redis names scripts by SHA-1; nothing is kept secret by it.
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
