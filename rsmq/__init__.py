"""
rsmq: reliable queues on Redis, in the format that RSMQ clients of all languages share.

    queues = RSMQ.from_url("redis://127.0.0.1:6379/0")
    queues.create_queue("orders", exist_ok=True)
    queues.send_message("orders", "hello")
    message = queues.receive_message("orders")
    queues.delete_message(message)
"""

from __future__ import annotations

import os.path
from importlib import import_module

# Type checkers treat a name like this as true. The import of typing would double the time of the
# import of this package.
TYPE_CHECKING = False

__version__ = "0.1.0"

__all__ = [
    "BYTES",
    "JSON",
    "MSGPACK",
    "RSMQ",
    "TEXT",
    "AsyncCells",
    "AsyncRSMQ",
    "BodyNotDecodable",
    "Cells",
    "CellsMismatch",
    "ClientClosed",
    "Codec",
    "Confirm",
    "DeadLetterReason",
    "ExecutorEnded",
    "InvalidFormat",
    "InvalidValue",
    "Message",
    "MessageCounts",
    "MessageNotString",
    "MessageTooLong",
    "MissingExtra",
    "MissingParameter",
    "NoAttributeSupplied",
    "NotEmptyInTime",
    "NotPossible",
    "NotReplicated",
    "PartlyDone",
    "QueueAttributes",
    "QueueExists",
    "QueueNotFound",
    "RSMQError",
    "RedisSMQ",
    "ReplyLost",
    "StoredMessage",
    "TooManyHungCalls",
    "WorkerExists",
    "WorkerReplaced",
]

# PyRSMQ installs its modules into the same folder. Only it has this one.
if os.path.exists(os.path.join(os.path.dirname(__file__), "const.py")):  # noqa: PTH110, PTH118, PTH120 - pathlib takes time
    raise ImportError(
        "PyRSMQ is installed into the folder of rsmq. Repair it: "
        "pip uninstall -y PyRSMQ && pip install --force-reinstall --no-deps rsmq"
    )

if TYPE_CHECKING:
    from rsmq._sync.cells import Cells
    from rsmq._sync.client import RSMQ
    from rsmq.aio import AsyncRSMQ
    from rsmq.cells.cells import AsyncCells
    from rsmq.codecs import BYTES, JSON, MSGPACK, TEXT, Codec
    from rsmq.errors import (
        BodyNotDecodable,
        CellsMismatch,
        ClientClosed,
        ExecutorEnded,
        InvalidFormat,
        InvalidValue,
        MessageNotString,
        MessageTooLong,
        MissingExtra,
        MissingParameter,
        NoAttributeSupplied,
        NotEmptyInTime,
        NotPossible,
        NotReplicated,
        PartlyDone,
        QueueExists,
        QueueNotFound,
        ReplyLost,
        RSMQError,
        TooManyHungCalls,
        WorkerExists,
        WorkerReplaced,
    )
    from rsmq.model import DeadLetterReason, Message, MessageCounts, QueueAttributes, StoredMessage
    from rsmq.operations.confirmation import Confirm
    from rsmq.pyrsmq import RedisSMQ
else:
    #: The module of each name. It is imported when the name is used first, so that ``import rsmq``
    #: takes no time.
    _MODULES = {
        name: module
        for module, names in {
            "rsmq.aio": ("AsyncRSMQ",),
            "rsmq.cells.cells": ("AsyncCells",),
            "rsmq._sync.cells": ("Cells",),
            "rsmq._sync.client": ("RSMQ",),
            "rsmq.codecs": ("BYTES", "JSON", "MSGPACK", "TEXT", "Codec"),
            "rsmq.errors": (
                "BodyNotDecodable",
                "CellsMismatch",
                "ClientClosed",
                "ExecutorEnded",
                "InvalidFormat",
                "InvalidValue",
                "MessageNotString",
                "MessageTooLong",
                "MissingExtra",
                "MissingParameter",
                "NoAttributeSupplied",
                "NotEmptyInTime",
                "NotPossible",
                "NotReplicated",
                "PartlyDone",
                "QueueExists",
                "QueueNotFound",
                "ReplyLost",
                "RSMQError",
                "TooManyHungCalls",
                "WorkerExists",
                "WorkerReplaced",
            ),
            "rsmq.model": (
                "DeadLetterReason",
                "Message",
                "MessageCounts",
                "QueueAttributes",
                "StoredMessage",
            ),
            "rsmq.operations.confirmation": ("Confirm",),
            "rsmq.pyrsmq": ("RedisSMQ",),
        }.items()
        for name in names
    }
    _PACKAGES = frozenset({"aio", "client", "codecs", "errors", "model", "operations", "pyrsmq"})

    def __getattr__(name: str) -> object:
        if name in _PACKAGES:
            return import_module(f"rsmq.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'rsmq' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_PACKAGES})
