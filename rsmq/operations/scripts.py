"""
The loader of Lua scripts: one ``.lua`` file for each atomic operation.

The header of each file documents its keys, arguments, result and errors. A line
``-- @include NAME.lua`` is replaced by the text of ``fragments/NAME.lua``. A fragment defines local
functions, and includes the fragments that it uses; the loader puts each before its first use, and
once. A fragment may be included inside a block: each call that executes a function's definition
takes time for it. Numbers are passed to commands as text, which Redis accepts without conversion.

The scripts of the clients are in ``rsmq/lua``, those of a feature in its folder ``scripts``, with
the fragments that only it uses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable

_INCLUDE = re.compile(r"( *)-- @include (\w+)\.lua\n")
_PACKAGE = files("rsmq")
_SHARED_FRAGMENTS = _PACKAGE / "lua" / "fragments"


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


#: For operations of plain commands.
NO_SCRIPT = Script("", b"", b"")


@cache
def load(name: str, feature: str = "") -> Script:
    """
    Return the script of an operation, with its ``@include`` lines replaced by fragments.

    Args:
        name: the name of its file, without ``.lua``.
        feature: the folder of ``rsmq`` whose ``scripts`` have the file; empty for those of the
            clients, in ``rsmq/lua``.
    """
    folder = _folder_of(feature)
    text = (folder / f"{name}.lua").read_text("utf-8")
    source = "".join(_expand(text, folder, set())).encode()
    # Redis identifies scripts by SHA-1, which protects nothing here.
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


def loader_of(feature: str) -> Callable[[str], Script]:
    """Return ``load`` for the scripts of a feature."""
    return partial(load, feature=feature)


def script_names() -> Iterator[tuple[str, str]]:
    """Return the name and the feature of each script, as ``load`` takes them."""
    features = ["", *(each.name for each in _PACKAGE.iterdir() if (each / "scripts").is_dir())]
    for feature in features:
        for path in _folder_of(feature).iterdir():
            if path.name.endswith(".lua"):
                yield path.name.removesuffix(".lua"), feature


def _folder_of(feature: str) -> Traversable:
    return _PACKAGE / feature / "scripts" if feature else _PACKAGE / "lua"


def _expand(text: str, folder: Traversable, included: set[str]) -> Iterator[str]:
    """
    Return the lines of a text, with each fragment before its first use.

    Args:
        folder: the folder of the script; its ``fragments`` precede those that all share.
        included: the fragments that the text can use already; those that it includes are added.
    """
    in_block: set[str] | None = None  # a block can use its own fragments, and what follows it not
    for line in text.splitlines(keepends=True):
        include = _INCLUDE.fullmatch(line)
        if include is None:
            in_block = None
            yield line
            continue
        indent, name = include.groups()
        if indent and in_block is None:
            in_block = set(included)
        usable = in_block if indent and in_block is not None else included
        if name not in usable:
            usable.add(name)
            path = folder / "fragments" / f"{name}.lua"
            path = path if path.is_file() else _SHARED_FRAGMENTS / f"{name}.lua"
            yield from _expand(path.read_text("utf-8"), folder, usable)
