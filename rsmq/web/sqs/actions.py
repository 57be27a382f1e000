"""
The table of actions: the operations of the protocol.
"""

from __future__ import annotations

from rsmq.web.sqs import move_tasks, queues, receives, sends
from rsmq.web.sqs.calls import SqsOperation
from rsmq.web.table import Scope

#: The operations by their names in the protocol.
ACTIONS: dict[str, SqsOperation] = {
    "CreateQueue": SqsOperation(queues.create, Scope.MANAGE, has_queue=False),
    "GetQueueUrl": SqsOperation(queues.find_url, Scope.STATS, has_queue=False),
    "ListQueues": SqsOperation(queues.list_all, Scope.STATS, has_queue=False),
    "DeleteQueue": SqsOperation(queues.delete, Scope.DESTROY, is_fresh=True, is_long=True),
    "PurgeQueue": SqsOperation(queues.purge, Scope.DESTROY, is_fresh=True, is_long=True),
    "GetQueueAttributes": SqsOperation(queues.read_attributes, Scope.STATS, is_fresh=True),
    "SetQueueAttributes": SqsOperation(queues.set_attributes, Scope.MANAGE, is_fresh=True),
    "SendMessage": SqsOperation(sends.send_one, Scope.SEND),
    "SendMessageBatch": SqsOperation(sends.send_batch, Scope.SEND),
    "ReceiveMessage": SqsOperation(receives.receive_messages, Scope.RECEIVE),
    "DeleteMessage": SqsOperation(receives.delete_one, Scope.RECEIVE),
    "DeleteMessageBatch": SqsOperation(receives.delete_batch, Scope.RECEIVE),
    "ChangeMessageVisibility": SqsOperation(receives.change_one, Scope.RECEIVE),
    "ChangeMessageVisibilityBatch": SqsOperation(receives.change_batch, Scope.RECEIVE),
    "ListQueueTags": SqsOperation(queues.list_tags, Scope.STATS, is_fresh=True),
    "TagQueue": SqsOperation(queues.add_tags, Scope.MANAGE, is_fresh=True),
    "UntagQueue": SqsOperation(queues.remove_tags, Scope.MANAGE, is_fresh=True),
    "ListDeadLetterSourceQueues": SqsOperation(queues.list_sources, Scope.STATS, is_fresh=True),
    "StartMessageMoveTask": SqsOperation(move_tasks.start, Scope.MANAGE, has_queue=False),
    "ListMessageMoveTasks": SqsOperation(move_tasks.list_some, Scope.STATS, has_queue=False),
    "CancelMessageMoveTask": SqsOperation(move_tasks.cancel, Scope.MANAGE, has_queue=False),
    "AddPermission": SqsOperation(queues.refuse_permission, Scope.MANAGE),
    "RemovePermission": SqsOperation(queues.refuse_permission, Scope.MANAGE),
}
#: Operations that the URL of a queue does not have.
WITHOUT_QUEUE = ("CreateQueue", "ListQueues")
