"""A handled error is freed immediately with the body of its call: it is in no reference cycle."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
import redis.exceptions as redis_errors

from rsmq import RSMQ, AsyncRSMQ, QueueNotFound
from tests.ports import free_port


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(params=["missing queue", "no server"])
def case(request, server):
    """A server, the errors of a send, and the seconds after which it is not tried again."""
    if request.param == "missing queue":
        return server.url, QueueNotFound, None
    # On a busy machine the time is over before the connection is refused.
    refused = redis_errors.ConnectionError, redis_errors.TimeoutError
    return f"redis://127.0.0.1:{free_port()}/0", refused, 0.02


@pytest.mark.usefixtures("without_gc")
def test_the_synchronous_client_frees_errors(case, ns):
    url, kind, deadline = case
    with RSMQ.from_url(url, ns=ns, retry_deadline=deadline) as rsmq:
        try:
            rsmq.send_message("q", "m")
        except kind as error:
            kept = weakref.ref(error)

    assert kept() is None


@pytest.mark.usefixtures("without_gc")
def test_the_asyncio_client_frees_errors(case, ns):
    url, kind, deadline = case

    async def main():
        async with AsyncRSMQ.from_url(url, ns=ns, retry_deadline=deadline) as rsmq:
            try:
                await rsmq.send_message("q", "m")
            except kind as error:
                return weakref.ref(error)

    assert asyncio.run(main())() is None
