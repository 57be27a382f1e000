"""
Tasks: functions that are called by messages, declared once for producers and workers.

    tasks = Tasks.from_url("redis://127.0.0.1:6379/0")

    @tasks.task(queue="mail", max_retries=5)
    def welcome(user_id: int, language: str = "en") -> None: ...

    job = welcome.send(17)
    tasks.worker().run()  # or, in a shell: rsmq-worker app:tasks
"""

from rsmq.jobs.asyncio_ import AsyncJobHandle
from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
from rsmq.jobs.flows.threads import FlowHandle
from rsmq.jobs.threads import JobHandle
from rsmq.tasks.body import RESULT
from rsmq.tasks.current_flow import CurrentFlow, current_flow
from rsmq.tasks.flow import Flow, chain, chord, group
from rsmq.tasks.graph import Node
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import BoundTask
from rsmq.tasks.task import DeclaredTask as Task
from rsmq.tasks.tasks import Tasks

__all__ = [
    "RESULT",
    "AsyncFlowHandle",
    "AsyncJobHandle",
    "BoundTask",
    "CurrentFlow",
    "Flow",
    "FlowHandle",
    "JobHandle",
    "Node",
    "Signature",
    "Task",
    "Tasks",
    "chain",
    "chord",
    "current_flow",
    "group",
]
