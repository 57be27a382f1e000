"""
The name by which a child process can import an object of this process.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

from rsmq.errors import InvalidFormat


def find_import_name(searched: object, source: object = None) -> str:
    """
    Return MODULE:NAME of an object that is a global of a module.

    Args:
        source: an object from which a child can make the searched one, used if that is not a
            global; None if there is none.

    Raises:
        InvalidFormat: neither is, or its module can't be imported.
    """
    try:
        return _find_global(searched)
    except InvalidFormat:
        if source is None:
            raise
        return _find_global(source)


def _find_global(searched: object) -> str:
    main: ModuleType | None = None
    for module_name, module in list(sys.modules.items()):
        name = next(
            (name for name, value in list(vars(module).items()) if value is searched), None
        ) if isinstance(module, ModuleType) else None  # fmt: skip
        if name is None:
            continue
        if module_name != "__main__":
            return f"{module_name}:{name}"
        main, main_name = module, _find_name_of_main(module)
        if main_name is not None:
            return f"{main_name}:{name}"
    rule = "it must be a global of a module: worker = Worker(...), not inside a function."
    raise InvalidFormat(
        "process",
        value=True,
        hint=f"Child processes import the worker, so {rule if main is None else _advise(main)}",
    )


def _advise(main: ModuleType) -> str:
    """Return what to do so that other programs can import the program."""
    path = getattr(main, "__file__", None)
    if path is None:
        return "write its program to a file."
    file = Path(path)
    if file.suffix != ".py" or not file.stem.isidentifier():
        stem = re.sub(r"\W", "_", f"_{file.stem}" if file.stem[:1].isdigit() else file.stem)
        return f"rename its program {file.name!r} to the name of a module, such as '{stem}.py'."
    return f"the folder of its program {file.name!r} must be in sys.path."


def find_name_of_main() -> str | None:
    """Return the name by which other programs can import the program; None if they can't."""
    return _find_name_of_main(sys.modules["__main__"])


def _find_name_of_main(main: ModuleType) -> str | None:
    if main.__spec__ is not None:
        return main.__spec__.name
    path = getattr(main, "__file__", None)
    if path is None:
        return None
    file = Path(path).resolve()
    places = {Path(each or ".").resolve() for each in sys.path}
    is_found = file.suffix == ".py" and file.stem.isidentifier() and file.parent in places
    return file.stem if is_found else None
