"""
PyRSMQ's commands: an object for each call, which gets its parameters and is then executed.

    rsmq.createQueue().qname("orders").vt(20).execute()
    rsmq.createQueue(qname="orders", vt=20).execute()      # the same

An invalid parameter raises at once if it is set by its own call, and in ``execute`` if it is a
keyword. With exceptions switched off, ``execute`` logs the error and returns False.
"""

from rsmq.pyrsmq.cmd import utils
from rsmq.pyrsmq.cmd.base_command import Command
from rsmq.pyrsmq.cmd.exceptions import (
    CommandNotImplementedException,
    InvalidParameterValue,
    NoMessageInQueue,
    QueueAlreadyExists,
    QueueDoesNotExist,
    RedisSMQException,
)
from rsmq.pyrsmq.cmd.message_commands import (
    ChangeMessageVisibilityCommand,
    DeleteMessageCommand,
    PopMessageCommand,
    ReceiveMessageCommand,
    SendMessageCommand,
)
from rsmq.pyrsmq.cmd.queue_commands import (
    CreateQueueCommand,
    DeleteQueueCommand,
    GetQueueAttributesCommand,
    ListQueuesCommand,
    SetQueueAttributesCommand,
)

__all__ = [
    "ChangeMessageVisibilityCommand",
    "Command",
    "CommandNotImplementedException",
    "CreateQueueCommand",
    "DeleteMessageCommand",
    "DeleteQueueCommand",
    "GetQueueAttributesCommand",
    "InvalidParameterValue",
    "ListQueuesCommand",
    "NoMessageInQueue",
    "PopMessageCommand",
    "QueueAlreadyExists",
    "QueueDoesNotExist",
    "ReceiveMessageCommand",
    "RedisSMQException",
    "SendMessageCommand",
    "SetQueueAttributesCommand",
    "utils",
]
