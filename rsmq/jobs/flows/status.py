"""
The states of flows of tasks and of their nodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from rsmq.errors import FlowCancelled, FlowFailed, FlowNotEnded

#: The number of failed nodes that the text of an error names.
_SHOWN = 3


class FlowState(StrEnum):
    """
    The state of a flow; each is equal to its text.

    Attributes:
        RUNNING: a node has not ended, or is still to be sent.
        SUCCEEDED: all nodes that no other one follows have succeeded.
        FAILED: one of these has failed, or was never sent.
        CANCELLED: it was cancelled, and no node runs any more.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeState(StrEnum):
    """
    The state of a node of a flow; each is equal to its text.

    Attributes:
        PENDING: it waits for other nodes.
        WAITING, RUNNING, RETRYING: as in ``JobState``: it was sent.
        SUCCEEDED: its task has returned.
        FAILED: its task has failed for the last time, or it could not be sent.
        CANCELLED: it was cancelled.
        EXPIRED: its message has left the queue, and no outcome is known.
        SKIPPED: it was not sent, because a node has failed, or the flow was cancelled.
    """

    PENDING = "pending"
    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """
    The state of a node of a flow.

    Attributes:
        number: its number in the flow, from 0, in the order in which nodes were added.
        task: the name of its task.
        queue: the name of its queue.
        after: the numbers of the nodes that it waits for.
        state: its state.
        id: the id of its message; None before it is sent.
        raw_result: its result as JSON, if it has one that another node or the flow uses; else None.
        error: why it has failed, at most 500 characters; None if it has not.
        is_finally: whether it runs after all others, whatever their outcomes.
        is_added: whether a node has added it while the flow ran.
    """

    number: int
    task: str
    queue: str
    after: tuple[int, ...]
    state: NodeState
    id: str | None = None
    raw_result: bytes | None = None
    error: str | None = None
    is_finally: bool = False
    is_added: bool = False


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """
    The state of a flow.

    Attributes:
        id: its id.
        state: its state.
        total: the number of its nodes.
        counts: how many nodes are pending, sent (and not ended), succeeded, failed, cancelled,
            expired and skipped.
        sent_at: when it was sent.
        ended_at: when it ended; None before.
        nodes: those that the call asked for, in the order of their numbers.
        is_list: whether its result is a list.
        task: the name of the task of its first node.
        queues: the names of the queues of its nodes.
    """

    id: str
    state: FlowState
    total: int
    counts: Mapping[str, int]
    sent_at: datetime
    ended_at: datetime | None
    nodes: Sequence[NodeStatus] = field(default=(), repr=False)
    is_list: bool = field(default=False, repr=False)
    task: str = ""
    queues: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_ended(self) -> bool:
        """Return whether nothing more of it runs or will be sent."""
        return self.state is not FlowState.RUNNING

    @property
    def done(self) -> int:
        """Return the number of nodes that have ended or were skipped, for a progress bar."""
        return self.total - self.counts["pending"] - self.counts["sent"]

    def result(self, decode: Callable[[str, Any], Any]) -> Any:
        """
        Return the result, if its nodes are those that no other one follows.

        Args:
            decode: returns the result of a task, by its name and the value of JSON.

        Raises:
            FlowFailed, FlowCancelled: it did.
            FlowNotEnded: it runs.
        """
        if self.state is FlowState.CANCELLED:
            raise FlowCancelled(self.id)
        if self.state is FlowState.FAILED:
            raise FlowFailed(self.id, self._describe_failures())
        if not self.is_ended:
            raise FlowNotEnded(self.id, 0, self.done, self.total)
        results = [decode(each.task, json.loads(each.raw_result or b"null")) for each in self.nodes]
        return results if self.is_list or len(results) != 1 else results[0]

    def _describe_failures(self) -> str:
        failed = [
            each
            for each in self.nodes
            if each.state in {NodeState.FAILED, NodeState.CANCELLED, NodeState.EXPIRED}
        ]
        shown = [f"{each.task} (node {each.number}) {_describe(each)}" for each in failed[:_SHOWN]]
        rest = f", and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        return "; ".join(shown) + rest


def _describe(node: NodeStatus) -> str:
    if node.state is NodeState.FAILED:
        return f"has failed: {node.error}"
    if node.state is NodeState.CANCELLED:
        return "was cancelled"
    return "has left its queue without an outcome"
