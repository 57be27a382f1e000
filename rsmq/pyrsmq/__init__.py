"""
PyRSMQ's API on this library's core, for programs that move over.

Every import of PyRSMQ gets ``.pyrsmq`` behind ``rsmq``, and the program runs::

    from rsmq.pyrsmq import RedisSMQ, cmd
    from rsmq.pyrsmq.consumer import RedisSMQConsumer, RedisSMQConsumerThread
    from rsmq.pyrsmq.cmd.exceptions import NoMessageInQueue

Names, arguments and answers are PyRSMQ 0.6.1's; what it writes is what Node's client writes.
compat/MIGRATING.md lists what changes in behaviour. New programs use ``rsmq.RSMQ``.
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
