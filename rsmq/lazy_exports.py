"""
Names of a package that are imported from its modules at their first use.
"""

import sys
from collections.abc import Callable
from importlib import import_module


def export_lazily(
    package: str, **modules: tuple[str, ...]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """
    Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: its name.
        modules: the names that it exports, by the module of the package that has them.
    """
    names = {name: module for module, of_module in modules.items() for name in of_module}

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{names[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return get, list_names, list(names)
