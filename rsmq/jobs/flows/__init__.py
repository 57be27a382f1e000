"""
Flows of tasks: what has become of each and of its nodes. ``rsmq.tasks`` makes and sends them.
"""

from typing import TYPE_CHECKING

from rsmq.lazy_exports import export_lazily

if TYPE_CHECKING:
    from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle as AsyncFlowHandle
    from rsmq.jobs.flows.status import FlowState as FlowState
    from rsmq.jobs.flows.status import FlowStatus as FlowStatus
    from rsmq.jobs.flows.status import NodeState as NodeState
    from rsmq.jobs.flows.status import NodeStatus as NodeStatus
    from rsmq.jobs.flows.threads import FlowHandle as FlowHandle
else:
    # Imported at their first use: the modules of handles import others of this package.
    __getattr__, __dir__, __all__ = export_lazily(
        __name__,
        asyncio_=("AsyncFlowHandle",),
        status=("FlowState", "FlowStatus", "NodeState", "NodeStatus"),
        threads=("FlowHandle",),
    )
