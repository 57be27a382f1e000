"""
Tasks: functions that are called by messages, declared once for producers and workers.

    tasks = Tasks.from_url("redis://127.0.0.1:6379/0")

    @tasks.task(queue="mail", max_retries=5)
    def welcome(user_id: int, language: str = "en") -> None: ...

    welcome.send(17)
    tasks.worker().run()  # or, in a shell: rsmq-worker app:tasks
"""

from rsmq.tasks.body import RESULT
from rsmq.tasks.job import TaskJob as Job
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import BoundTask
from rsmq.tasks.task import DeclaredTask as Task
from rsmq.tasks.tasks import Tasks

__all__ = ["RESULT", "BoundTask", "Job", "Signature", "Task", "Tasks"]
