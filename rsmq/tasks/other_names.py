"""
Names of other task systems, and what to write here: for the texts of errors.
"""

from __future__ import annotations

_RETRY = "max_retries= and backoff=: each exception is retried but those of no_retry="
_MAX_RUNTIME = "max_runtime= (seconds)"
_ALWAYS = (
    "nothing: a message is deleted when its function has returned, so a killed task runs again"
)

#: Attributes of a task.
OF_TASKS = {
    "delay": "send(...), in asyncio await asend(...)",
    "apply_async": "options(delay=60).send(...)",
    "apply": "the function itself: task(...)",
    "enqueue": "send(...), in asyncio await asend(...)",
    "defer": "options(delay=60).send(...)",
    "schedule": "options(delay=60).send(...), or tasks.schedule(...) for set times",
    "s": "signature(...)",
    "si": "signature(...)",
    "subtask": "signature(...)",
    "map": "tasks.map(task, items, then=...)",
    "retry": "raise Retry(after=20), of rsmq.worker",
    "request": "current_message(), of rsmq.worker",
    "update_state": "current_message().set_progress(done, total), of rsmq.worker",
    "AsyncResult": "queues.job(queue, id)",
}

#: Attributes of the declarations.
OF_DECLARATIONS = {
    "send_task": "task.send(...); from elsewhere send_message with the body of docs/tasks.md",
    "AsyncResult": "tasks.client.job(queue, id)",
    "job": "tasks.client.job(queue, id), in asyncio tasks.aio.job(queue, id)",
    "autodiscover_tasks": "an import of the modules that declare tasks",
    "conf": "the options of the client, of @tasks.task and of tasks.worker()",
    "on_after_configure": "tasks.schedule(...)",
    "actor": "task",
    "shared_task": "task",
}

#: Options of a declaration.
OF_DECLARED_OPTIONS = {
    "bind": "current_message() in the function, of rsmq.worker",
    "autoretry_for": _RETRY,
    "retry_backoff": "backoff=",
    "retry_kwargs": "max_retries= and backoff=",
    "default_retry_delay": "backoff= (seconds)",
    "retries": "max_retries=",
    "acks_late": _ALWAYS,
    "task_reject_on_worker_lost": _ALWAYS,
    "time_limit": _MAX_RUNTIME,
    "soft_time_limit": _MAX_RUNTIME,
    "timeout": _MAX_RUNTIME,
    "ignore_result": "track=True where results are wanted; they are not stored without it",
    "result_expires": "result_ttl= (seconds)",
    "rate_limit": "the middleware RateLimit(10, 60), of rsmq.worker",
    "queue_name": "queue=",
    "actor_name": "name=",
}

#: Options of a send.
OF_SEND_OPTIONS = {
    "countdown": "delay= (seconds)",
    "eta": "deliver_at= (a datetime)",
    "priority": "level=, with levels= at the declaration",
    "queue": "the queue= of the declaration; a task has one queue",
    "routing_key": "the queue= of the declaration; a task has one queue",
    "task_id": "unique_key= or dedup_id=; ids are made by the send",
    "link": "then=",
    "args": "send(...) with the arguments",
    "kwargs": "send(...) with the arguments",
    "ignore_result": "track=True at the declaration where results are wanted",
    "track": "track=True at the declaration",
}
