# Generated from rsmq/jobs/flows/asyncio_.py by scripts/generate-sync. Do not edit.
"""
``queues.flow`` of the synchronous clients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from rsmq.errors import FlowNotEnded, FlowNotFound
from rsmq.jobs.base_handle import BlocksForResult
from rsmq.jobs.flows.operations import cancel_flow, read_flow
from rsmq.jobs.flows.status import FlowStatus, NodeStatus
from rsmq.jobs.status import CancelResult
from rsmq.wire.ids import check_flow_id
from rsmq.wire.limits import check_duration


def _keep(_task: str, value: Any) -> Any:
    """Return a result as it is."""
    return value


class FlowHandle(BlocksForResult[Any]):
    """
    A flow of tasks that was sent, by its id.

    Attributes:
        id: its id.
        client: the client that reaches it.
        only_reads: whether reads leave it as it is.
        decode: converts the JSON of a result, by the name of the task.
        ended: its status if it ran without messages, as in ``Tasks.immediate``; else None.
    """

    def __init__(
        self,
        client: Any,
        id: str,
        *,
        decode: Callable[[str, Any], Any] = _keep,
        only_reads: bool = False,
        ended: FlowStatus | None = None,
    ) -> None:
        """
        Make it; nothing is read. The clients and ``Flow`` call this.

        Raises:
            InvalidFormat: the id is not one of a flow.
        """
        self.client = client
        self.id: str = check_flow_id(id)
        self.decode = decode
        self.only_reads = only_reads
        self.ended = ended

    def status(self) -> FlowStatus:
        """
        Return its state, and how many of its nodes are in which state.

        One atomic script. It looks at up to 100 nodes, others in each second: those end whose
        messages have left their queues without their records, as by a purge. Workers find them all
        within minutes.

        Raises:
            FlowNotFound: there is no such flow, or its time to live has ended.
        """
        return self.read("none")

    def nodes(self) -> list[NodeStatus]:
        """
        Return all its nodes, in the order in which they were added. One atomic script.

        Raises:
            FlowNotFound: as for ``status``.
        """
        return list((self.read("all")).nodes)

    def result(
        self,
        timeout: float | None = None,
    ) -> Any:
        """
        Wait until it has ended, and return the result of its last node.

        That is the node that no other one follows. Of several it returns a list, in the order in
        which they were added. It waits as ``result`` of a job does.

        Args:
            timeout: seconds, from 0; None waits forever.

        Raises:
            FlowNotEnded: it has not ended within the timeout. It is a TimeoutError too.
            FlowFailed: such a node has failed, or was not sent because another one has failed.
            FlowCancelled: it was cancelled.
            FlowNotFound: as for ``status``.
            InvalidValue: timeout is out of range.
        """
        seconds = None if timeout is None else check_duration("timeout", timeout)

        def ended() -> FlowStatus | None:
            status = self.read("ends")
            return status if status.is_ended else None

        found: FlowStatus | None = ended()
        if found is None and seconds != 0:
            key = self.client.namespace.flow(self.id)
            found = self.client.watcher.wait(ended, lambda _ended: None, None, (key,), seconds)
        if found is None:
            status = self.status()
            raise FlowNotEnded(self.id, seconds or 0, status.done, status.total)
        if found.state == "failed":  # the nodes that have failed may be others
            found = self.read("all")
        return found.result(self.decode)

    def cancel(self) -> CancelResult:
        """
        Cancel it: no further node is sent but ``finally_``, and the jobs of those that were are.

        One atomic script. See ``cancel`` of a job for what becomes of a running one.

        Returns:
            cancelled; requested if consumers have messages of it, or ``finally_`` runs; ended if it
            had ended otherwise.

        Raises:
            FlowNotFound: as for ``status``.
        """
        if self.ended is not None:
            return CancelResult.ENDED
        state = self.client.run(cancel_flow(self.client.namespace, self.id))
        if state is None:
            raise FlowNotFound(self.id)
        return CancelResult(state) if state in {"cancelled", "requested"} else CancelResult.ENDED

    def read(self, nodes: Literal["none", "ends", "all"]) -> FlowStatus:
        """
        Return its status with some of its nodes: none, those that no other one follows, or all.

        Raises:
            FlowNotFound: as for ``status``.
        """
        if self.ended is not None:
            return _choose(self.ended, nodes)
        reading = read_flow(self.client.namespace, self.id, nodes, only_reads=self.only_reads)
        status: FlowStatus | None = self.client.run(reading)
        if status is None:
            raise FlowNotFound(self.id)
        return status

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


def _choose(status: FlowStatus, nodes: Literal["none", "ends", "all"]) -> FlowStatus:
    """Return a status with some of its nodes."""
    if nodes == "none":
        return replace(status, nodes=())
    if nodes == "all":
        return status
    declared = [each for each in status.nodes if not each.is_added]
    followed = {number for each in declared for number in each.after}
    ends = (each for each in declared if each.number not in followed and not each.is_finally)
    return replace(status, nodes=tuple(ends))
