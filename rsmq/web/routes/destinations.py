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
    "needs manage of both. It stays if the move then fails.",
)  # fmt: skip


async def create_destination(call: ApiCall) -> None:
    """
    Create the destination of a move if the call wants it; an existing one stays as it is.

    Raises:
        Refused: the caller may not manage both queues.
        QueueNotFound: the queue does not exist, or its dead-letter queue. Nothing was created.
    """
    if not call.values.get(CREATE_DESTINATION.name):
        return
    queues, queue, destination = call.queues, call.names[QUEUE], call.values["destination"]
    call.allow(Scope.MANAGE, queue)
    call.allow(Scope.MANAGE, destination)
    settings = read_settings(await queues.get_queue_attributes(queue))
    if settings["dead_letter_queue"] is not None:
        await queues.get_queue_attributes(settings["dead_letter_queue"])  # raises without it
    fields = await queues.run(read_fields(queues.namespace.queue(queue).hash))
    if await queues.run_steps(copy_queue(queues.namespace, destination, settings, fields)):
        await queues.run_steps(copy_policy(queues.namespace, destination, settings))
