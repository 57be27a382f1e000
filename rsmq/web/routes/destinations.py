"""
The creation of the queue to which messages are moved.
"""

from __future__ import annotations

from rsmq.operations.copying import copy_policy, copy_queue, read_fields, read_settings
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import QUEUE
from rsmq.web.table import ApiCall, Scope

CREATE_DESTINATION = Field(
    "create_destination", Shape.FLAG,
    "Create the destination first if it does not exist, with the attributes of this queue: it "
    "needs manage of both, and send of the dead-letter queue. It stays if the move then fails.",
)  # fmt: skip


async def create_destination(call: ApiCall) -> None:
    """
    Create the destination of a move if the call wants it; an existing one stays as it is.

    Raises:
        Refused: the caller may not manage both queues, or send to the dead-letter queue.
        QueueNotFound: the queue does not exist, or its dead-letter queue. Nothing was created.
    """
    if not call.values.get(CREATE_DESTINATION.name):
        return
    queues, queue, destination = call.queues, call.names[QUEUE], call.values["destination"]
    call.allow(Scope.MANAGE, queue)
    call.allow(Scope.MANAGE, destination)
    settings = read_settings(await queues.get_queue_attributes(queue))
    dead = settings["dead_letter_queue"]
    if dead is not None:
        call.allow(Scope.SEND, dead)  # it gets messages of the new queue
        await queues.get_queue_attributes(dead)  # raises without it
    fields = await queues.run(read_fields(queues.namespace.queue(queue).hash))
    if await queues.run_steps(copy_queue(queues.namespace, destination, settings, fields)):
        await queues.run_steps(copy_policy(queues.namespace, destination, settings))
