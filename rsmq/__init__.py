"""
rsmq: reliable queues on Redis, in the format that RSMQ clients of all languages share.

    queues = RSMQ.from_url("redis://127.0.0.1:6379/0")
    queues.create_queue("orders", exist_ok=True)
    queues.send_message("orders", "hello")
    message = queues.receive_message("orders")
    queues.delete_message(message)
"""

from rsmq.aio import AsyncRSMQ
from rsmq.client import RSMQ
from rsmq.codecs import BYTES, JSON, MSGPACK, TEXT, Codec
from rsmq.errors import (
    BodyNotDecodable,
    ClientClosed,
    InvalidFormat,
    InvalidValue,
    MessageNotString,
    MessageTooLong,
    MissingExtra,
    MissingParameter,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
    RSMQError,
    WorkerExists,
    WorkerReplaced,
)
from rsmq.model import DeadLetterReason, Message, MessageCounts, QueueAttributes, StoredMessage
from rsmq.pyrsmq import RedisSMQ

__all__ = [
    "BYTES",
    "JSON",
    "MSGPACK",
    "RSMQ",
    "TEXT",
    "AsyncRSMQ",
    "BodyNotDecodable",
    "ClientClosed",
    "Codec",
    "DeadLetterReason",
    "InvalidFormat",
    "InvalidValue",
    "Message",
    "MessageCounts",
    "MessageNotString",
    "MessageTooLong",
    "MissingExtra",
    "MissingParameter",
    "NoAttributeSupplied",
    "QueueAttributes",
    "QueueExists",
    "QueueNotFound",
    "RSMQError",
    "RedisSMQ",
    "StoredMessage",
    "WorkerExists",
    "WorkerReplaced",
]
