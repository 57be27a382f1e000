"""
Names of a package that are imported from its modules at their first use.
"""

import sys
from collections.abc import Callable
from importlib import import_module


def export_lazily(
    package: str, **names: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """
    Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: its name.
        names: the names that it exports, each with the module of the package that has it.
    """

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{names[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return get, list_names, list(names)
