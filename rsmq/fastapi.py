"""
FastAPI and Starlette: a client and a worker in the lifespan of an application, probes, request ids.

    app = FastAPI(lifespan=lifespan(tasks=tasks))
    app.add_middleware(RequestIds)
    app.add_route("/readyz", readyz)

    @app.post("/orders")
    async def order(queues: Annotated[AsyncRSMQ, Depends(get_queues)]): ...

It imports Starlette, which FastAPI brings; FastAPI itself is not imported.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat, MissingExtra, RSMQError, show_type
from rsmq.headers import REQUEST_ID, use_headers
from rsmq.operations.plain import plain_command
from rsmq.tasks import Tasks
from rsmq.worker import Worker

try:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("fastapi", "rsmq.fastapi") from error

__all__ = ["RequestIds", "get_queues", "healthz", "lifespan", "readyz", "run_worker"]

#: The probes' time for Redis to answer.
PROBE_SECONDS = 2.0
START_POLL_SECONDS = 0.01
REQUEST_ID_HEADER = "X-Request-ID"

_CLIENT = "rsmq_client"
_WORKER = "rsmq_worker"
_VALID_ID = re.compile(r"[\x21-\x7e]{1,128}")


def lifespan(
    queues: Callable[[], AsyncRSMQ[Any]] | None = None,
    *,
    tasks: Tasks | None = None,
    worker: Worker[Any] | None = None,
) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]:
    """
    Return a lifespan for ``FastAPI(lifespan=...)`` or ``Starlette(lifespan=...)``.

    When the server has answered its last request, the worker stops gracefully, then the clients are
    closed. A lifespan of your own can contain it: ``async with lifespan(...)(app) as state:``, and
    yields ``state``, with entries of its own.

    Args:
        queues: opens the client of ``get_queues``, as in ``lambda: AsyncRSMQ.from_url(url)``.
            Without it that is the asyncio client of ``tasks``.
        tasks: tasks that the application sends with ``asend``. Their asyncio client is closed; the
            synchronous one stays open.
        worker: a worker that runs in the event loop of the server, as ``run_worker`` does.

    Raises:
        InvalidFormat: an argument is of another type.
    """
    if queues is not None and (not callable(queues) or isinstance(queues, AsyncRSMQ)):
        hint = "Pass a function that opens it, as in lambda: AsyncRSMQ.from_url(url)."
        raise InvalidFormat("queues", value=show_type(queues), hint=hint)
    if tasks is not None and not isinstance(tasks, Tasks):
        raise InvalidFormat("tasks", value=show_type(tasks), hint="Pass a Tasks.")
    if worker is not None and not isinstance(worker, Worker):
        hint = "Pass a Worker, such as tasks.worker(grace=20)."
        raise InvalidFormat("worker", value=show_type(worker), hint=hint)

    @asynccontextmanager
    async def open_all(_app: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            client = None
            if tasks is not None:
                client = tasks.aio
                stack.push_async_callback(tasks.close_asyncio)
            if queues is not None:
                client = await stack.enter_async_context(queues())
            if worker is not None:
                await stack.enter_async_context(run_worker(worker))
            yield {_CLIENT: client, _WORKER: worker}

    return open_all


@asynccontextmanager
async def run_worker(worker: Worker[Any]) -> AsyncIterator[None]:
    """
    Run a worker while the block runs; at its end the worker stops, within its ``grace``.

    The block begins when the worker runs. A worker that fails later does not end the block:
    ``readyz`` reports it, and the end of the block raises its error.

    Args:
        worker: the worker. It can be run again later.

    Raises:
        The errors of ``Worker.run``, as QueueNotFound, if the worker can't start.
    """
    running = asyncio.create_task(worker.run_async())
    try:
        while not worker.health().is_running and not running.done():  # noqa: ASYNC110 - threads set it
            await asyncio.sleep(START_POLL_SECONDS)
        if running.done():
            await running
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def get_queues(connection: HTTPConnection) -> Any:
    """
    Return the client that ``lifespan`` has opened; a dependency: ``Depends(get_queues)``.

    Args:
        connection: the request or the web socket.

    Raises:
        RSMQError: the application has no such lifespan, or it has not run: in tests use
            ``with TestClient(app) as client:``.
    """
    client = getattr(connection.state, _CLIENT, None)
    if client is None:
        raise RSMQError(
            "There is no client in this application",
            hint="Pass FastAPI(lifespan=rsmq.fastapi.lifespan(tasks=tasks)). "
            "In tests, with TestClient(app) as client: runs the lifespan.",
        )
    return client


async def healthz(request: Request) -> JSONResponse:
    """
    Answer 200, or 503 if the worker of the lifespan has failed or hangs; for a liveness probe.

    It does not ask Redis: a restart would not help if Redis is away.

    Args:
        request: the request.
    """
    worker: Worker[Any] | None = getattr(request.state, _WORKER, None)
    checks = {} if worker is None else {"worker": worker.health().is_healthy}
    return _answer(checks)


async def readyz(request: Request) -> JSONResponse:
    """
    Answer 200 if Redis answers within two seconds and the worker is ready, else 503.

    The worker is that of the lifespan; without one only Redis counts.

    Args:
        request: the request.
    """
    client = getattr(request.state, _CLIENT, None)
    worker: Worker[Any] | None = getattr(request.state, _WORKER, None)
    checks = {}
    if client is not None:
        checks["redis"] = await _answers(client)
    if worker is not None:
        checks["worker"] = worker.health().is_ready
    return _answer(checks)


async def _answers(client: AsyncRSMQ[Any]) -> bool:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await client.run(plain_command("PING", key=client.namespace.queues))
    except Exception:  # noqa: BLE001 - whatever it is, Redis can't be used
        return False
    return True


def _answer(checks: dict[str, bool]) -> JSONResponse:
    is_ok = all(checks.values())
    return JSONResponse({"ok": is_ok, **checks}, 200 if is_ok else 503)


class RequestIds:
    """
    A middleware that gives each request an id, as the header ``request_id`` of messages and logs.

    The id is that of the header ``X-Request-ID``, or a new one, and is in the same header of the
    answer. While the request runs, it is in ``current_headers()``: tasks, and messages of an
    ``EnvelopeCodec``, carry it, and ``HeaderFilter`` adds it to log records.

    An id of a client is taken if it has 1 to 128 visible ASCII characters. It is a text that
    anybody may send: do not trust it.
    """

    def __init__(self, app: ASGIApp, *, header: str = REQUEST_ID_HEADER) -> None:
        """
        Make it; ``app.add_middleware(RequestIds)`` does.

        Args:
            app: the application.
            header: the name of the HTTP header.
        """
        self._app = app
        self._header = header.lower().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Handle a request.

        Args:
            scope: as of ASGI.
            receive: as of ASGI.
            send: as of ASGI.
        """
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        request_id = self._find_id(scope) or secrets.token_hex(16)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (self._header, request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        with use_headers({REQUEST_ID: request_id}):
            await self._app(scope, receive, send_with_id)

    def _find_id(self, scope: Scope) -> str | None:
        for name, value in scope["headers"]:
            text = value.decode("latin-1")
            if name == self._header and _VALID_ID.fullmatch(text):
                return str(text)
        return None
