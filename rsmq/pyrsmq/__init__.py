"""
PyRSMQ's API on this library's client, for programs that migrate from PyRSMQ.

A program runs unchanged if each of its imports has ``.pyrsmq`` added after ``rsmq``::

    from rsmq.pyrsmq import RedisSMQ, cmd
    from rsmq.pyrsmq.consumer import RedisSMQConsumer, RedisSMQConsumerThread
    from rsmq.pyrsmq.cmd.exceptions import NoMessageInQueue

Names, parameters and results are those of PyRSMQ 0.6.1. The data in Redis is the same that Node's
client writes. compat/MIGRATING.md lists the differences in behaviour. New programs should use
``rsmq.RSMQ``.
"""

from rsmq.pyrsmq import cmd
from rsmq.pyrsmq.cmd.exceptions import (
    InvalidParameterValue,
    NoMessageInQueue,
    QueueAlreadyExists,
    QueueDoesNotExist,
    RedisSMQException,
)
from rsmq.pyrsmq.consumer import RedisSMQConsumer, RedisSMQConsumerThread
from rsmq.pyrsmq.rsmq import RedisSMQ

__all__ = [
    "InvalidParameterValue",
    "NoMessageInQueue",
    "QueueAlreadyExists",
    "QueueDoesNotExist",
    "RedisSMQ",
    "RedisSMQConsumer",
    "RedisSMQConsumerThread",
    "RedisSMQException",
    "cmd",
]
