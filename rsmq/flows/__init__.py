"""
Flows of tasks: what has become of each and of its nodes. ``rsmq.tasks`` makes and sends them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsmq.flows.asyncio_ import AsyncFlowHandle as AsyncFlowHandle
    from rsmq.flows.status import FlowState as FlowState
    from rsmq.flows.status import FlowStatus as FlowStatus
    from rsmq.flows.status import NodeState as NodeState
    from rsmq.flows.status import NodeStatus as NodeStatus
    from rsmq.flows.threads import FlowHandle as FlowHandle
else:
    # Imported at their first use: the modules of handles import others of this package.
    _MODULES = {
        "AsyncFlowHandle": "rsmq.flows.asyncio_",
        "FlowHandle": "rsmq.flows.threads",
        "FlowState": "rsmq.flows.status",
        "FlowStatus": "rsmq.flows.status",
        "NodeState": "rsmq.flows.status",
        "NodeStatus": "rsmq.flows.status",
    }
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'rsmq.flows' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})
