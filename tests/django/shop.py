"""Tasks of a shop, and what they did."""

from __future__ import annotations

import asyncio

import tests.django.environment  # noqa: F401 - Django is ready after it

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task

calls = []


@task
def add(a, b=1):
    calls.append((a, b))
    return a + b


@task
def anything(*args, **kwargs):
    return [args, kwargs]


@task(queue_name="mail", priority=5)
def mail(address):
    calls.append(address)


@task
async def wait(seconds):
    await asyncio.sleep(seconds)
    return "awaited"


@task(takes_context=True)
def attempt(context, good):
    calls.append(context.task_result)
    if context.attempt != good:
        raise LookupError(f"attempt {context.attempt}")
    return context.attempt


@task
def unstorable():
    return object()


@task
def not_a_number():
    return [float("nan")]


@task
def large():
    return "x" * 70_000


@task
def raises(error):
    calls.append(error)
    raise {"ValueError": ValueError, "SystemExit": SystemExit}[error]("no")


def no_task():
    calls.append("no task")
