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

# PyRSMQ installs its modules into the same folder. Only it has this one.
if os.path.exists(os.path.join(os.path.dirname(__file__), "const.py")):  # noqa: PTH110, PTH118, PTH120 - pathlib takes time
    raise ImportError(
        "PyRSMQ is installed into the folder of rsmq. Repair it: "
        "pip uninstall -y PyRSMQ && pip install --force-reinstall --no-deps rsmq"
    )

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ as RSMQ
    from rsmq._sync.partitions import Partitions as Partitions
    from rsmq.aio import AsyncRSMQ as AsyncRSMQ
    from rsmq.codecs import BYTES as BYTES
    from rsmq.codecs import JSON as JSON
    from rsmq.codecs import MSGPACK as MSGPACK
    from rsmq.codecs import TEXT as TEXT
    from rsmq.codecs import Codec as Codec
    from rsmq.errors import BodyNotDecodable as BodyNotDecodable
    from rsmq.errors import BodyUnavailable as BodyUnavailable
    from rsmq.errors import ClientClosed as ClientClosed
    from rsmq.errors import ExecutorEnded as ExecutorEnded
    from rsmq.errors import ExecutorStalled as ExecutorStalled
    from rsmq.errors import InvalidCombination as InvalidCombination
    from rsmq.errors import InvalidFormat as InvalidFormat
    from rsmq.errors import InvalidValue as InvalidValue
    from rsmq.errors import MessageNotString as MessageNotString
    from rsmq.errors import MessageTooLong as MessageTooLong
    from rsmq.errors import MissingExtra as MissingExtra
    from rsmq.errors import MissingParameter as MissingParameter
    from rsmq.errors import NoAttributeSupplied as NoAttributeSupplied
    from rsmq.errors import NotEmptyInTime as NotEmptyInTime
    from rsmq.errors import NotPossible as NotPossible
    from rsmq.errors import NotReplicated as NotReplicated
    from rsmq.errors import QueueExists as QueueExists
    from rsmq.errors import QueueNotFound as QueueNotFound
    from rsmq.errors import ReplyLost as ReplyLost
    from rsmq.errors import RSMQError as RSMQError
    from rsmq.errors import TooManyHungCalls as TooManyHungCalls
    from rsmq.errors import WorkerExists as WorkerExists
    from rsmq.errors import WorkerNotFound as WorkerNotFound
    from rsmq.errors import WorkerReplaced as WorkerReplaced
    from rsmq.model import DeadLetterReason as DeadLetterReason
    from rsmq.model import Message as Message
    from rsmq.model import MessageCounts as MessageCounts
    from rsmq.model import QueueAttributes as QueueAttributes
    from rsmq.model import StoredMessage as StoredMessage
    from rsmq.operations.confirmation import Confirm as Confirm
    from rsmq.partitions import AsyncPartitions as AsyncPartitions
    from rsmq.pyrsmq import RedisSMQ as RedisSMQ
    from rsmq.wire.levels import level_queue as level_queue
else:
    #: The module of each name. It is imported when the name is used first, so that ``import rsmq``
    #: takes no time.
    _MODULES = {
        name: module
        for module, names in {
            "rsmq.aio": ("AsyncRSMQ",),
            "rsmq._sync.client": ("RSMQ",),
            "rsmq._sync.partitions": ("Partitions",),
            "rsmq.codecs": ("BYTES", "JSON", "MSGPACK", "TEXT", "Codec"),
            "rsmq.errors": (
                "BodyNotDecodable",
                "BodyUnavailable",
                "ClientClosed",
                "ExecutorEnded",
                "ExecutorStalled",
                "InvalidCombination",
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
                "QueueExists",
                "QueueNotFound",
                "ReplyLost",
                "RSMQError",
                "TooManyHungCalls",
                "WorkerExists",
                "WorkerNotFound",
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
            "rsmq.partitions": ("AsyncPartitions",),
            "rsmq.pyrsmq": ("RedisSMQ",),
            "rsmq.wire.levels": ("level_queue",),
        }.items()
        for name in names
    }
    __all__ = list(_MODULES)
    _PACKAGES = frozenset({"aio", "codecs", "errors", "model", "operations", "pyrsmq"})

    def __getattr__(name: str) -> object:
        if name in _PACKAGES:
            return import_module(f"rsmq.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'rsmq' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_PACKAGES})
