"""
Workers by the name of their module, ``MODULE:NAME``, with their own client or in another place.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.worker.worker import Worker, WorkerSource


class NotImportable(Exception):
    """There is no worker of this name."""


def import_worker(name: str) -> Worker:
    """
    Import the worker that ``MODULE:NAME`` names, or make that of tasks.

    Raises:
        NotImportable: the name has another form, or there is no such module or worker.
    """
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise NotImportable(f"{name!r} is not of the form MODULE:NAME, as in myapp:worker")
    if not all(part.isidentifier() for part in module.split(".")):
        raise NotImportable(f"{module!r} is not a module: write package.module:NAME, with dots")
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        loaded: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # a module that it imports is missing
        raise NotImportable(
            f"there is no module {module!r} in {os.getcwd()}, nor installed"  # noqa: PTH109 - as above
        ) from None
    namespace = vars(loaded)
    for part in path.split("."):
        loaded = getattr(loaded, part, None)
    if loaded is None:
        raise NotImportable(
            f"the module {module!r} has no {path!r}{_find_workers(module, namespace)}"
        )
    if isinstance(loaded, WorkerSource) and not isinstance(loaded, type):
        loaded = loaded.worker()
    if not isinstance(loaded, Worker):
        raise NotImportable(
            f"{name} is not a Worker or Tasks, but of type {type(loaded).__name__}"
            f"{_find_workers(module, namespace)}"
        )
    return loaded


def _find_workers(module: str, namespace: Mapping[str, Any]) -> str:
    """Return the end of an error with the names of what a module has that can be run."""
    # By their classes: lazy objects of other libraries may raise anything if they are looked at.
    names = [
        f"{module}:{name}"
        for name, value in namespace.items()
        if issubclass(type(value), Worker) or callable(getattr(type(value), "worker", None))
    ]
    return f". Names in it: {', '.join(names)}" if names else ""


def use_other_place(worker: Worker, place: Mapping[str, Any]) -> None:
    """
    Give a worker a client in another place, with the codec and the rule for names of its own.

    The own client stays open: handlers may use it.

    Args:
        worker: the worker.
        place: the arguments of ``RSMQ.from_url``: url and ns.

    Raises:
        The errors of ``RSMQ.from_url``.
    """
    own = worker.rsmq
    worker.rsmq = RSMQ.from_url(**place, codec=own.codec, strict_names=own.namespace.strict_names)
