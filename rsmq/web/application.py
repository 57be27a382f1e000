"""
``create_app``: puts the parts of the server together.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route, request_response

from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat, MissingParameter, show_type
from rsmq.explain.alerts.sender import AlertSender
from rsmq.history.recorder import HistoryRecorder
from rsmq.search.json_path import parse_path
from rsmq.trash.emptier import TrashEmptier
from rsmq.web.access.ended_sessions import EndedSessions
from rsmq.web.access.gate import PRINCIPAL, AccessGate, Asgi
from rsmq.web.access.principals import Principal
from rsmq.web.access.proxies import TrustedProxies
from rsmq.web.access.users import Users, UsersFile, users_of_key
from rsmq.web.api import Api
from rsmq.web.bulk.runner import OperationRunner
from rsmq.web.client import CLIENT_OPTIONS, Client
from rsmq.web.monitoring import NamespacesOf, healthz, metrics_of, readyz_of
from rsmq.web.namespaces import NamespacePaths, namespace_switch
from rsmq.web.openapi import make_document, server_of_namespaces
from rsmq.web.pages.api_page import make_api_page
from rsmq.web.pages.rendering import POLICY
from rsmq.web.pages.site import Site
from rsmq.web.problems import HttpProblem, problem_response
from rsmq.web.removals import read_removals
from rsmq.web.requests import NAMESPACE, path_of, path_of_namespace
from rsmq.web.rest_rsmq import RestRsmq
from rsmq.web.routes import TABLE
from rsmq.web.sqs import Sqs
from rsmq.web.sqs.names import SqsSite
from rsmq.web.sqs.signatures import Signatures
from rsmq.web.stopping import end_waits
from rsmq.web.walks import SharedWalks
from rsmq.webhooks.proxy import Reach

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PREFIX = "/api/v1"
_DOCUMENT, _DOCS, _NAMESPACES = _PAGES = ("/openapi.json", "/docs", "/ns")
_NOT_FOUND = 404
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}


def create_app(
    queues: Client | str | Sequence[Client],
    *,
    users: str | os.PathLike[str] | None = None,
    key: str | None = None,
    auth: bool = True,
    read_only: bool = False,
    allow_hosts: Iterable[str] | None = None,
    trusted_proxies: Iterable[str] = (),
    user_header: str | None = None,
    record: bool = False,
    redact: Iterable[str] = (),
    sqs: SqsSite | None = None,
    alerts: Reach | None = None,
) -> Starlette:
    """
    Return an ASGI application with the dashboard and the HTTP API, for a server or for a mount.

    The pages are at ``/``, and those of a namespace at ``/ns/NAME/``. It has ``/api/v1``, for a
    namespace ``/api/v1/ns/NAME``, the routes of rest-rsmq under ``/rest-rsmq``,
    ``/metrics``, ``/healthz`` and ``/readyz``. Only the last two answer callers that are not known,
    and the page on which they log in. ``app.state.rest_rsmq`` is an
    application of rest-rsmq's routes alone, with the same rules, to be served at the root.
    Between the startup and the shutdown of its lifespan it runs operations of many messages, unless
    it is read-only. Servers don't run the lifespan of a mounted application: put
    ``OperationRunner(queues)`` of this module into that of the outer one.
    ``await app.state.end_waits()`` ends the waits of all requests with an answer, for a server that
    stops.

    Args:
        queues: an asyncio client, which stays open, and whose ``retry_deadline`` is how long a
            request waits for a Redis that is away. Or a URL as for ``AsyncRSMQ.from_url``. Or a
            list of clients, one for each namespace: all paths without a namespace are those of the
            first one.
        users: the path of a users file, which is read again when it has changed.
        key: one key that may do everything, instead of a users file: at least 16 characters. The
            address ``/?key=KEY`` logs in once in each process.
        auth: False lets everyone who can connect do everything.
        read_only: whether all changes are refused, receives included.
        allow_hosts: the names that a request may have in Host, without ports; None allows any.
        trusted_proxies: networks such as ``10.0.0.0/8``, whose requests name the address of their
            client in ``X-Forwarded-For``: for limits on attempts, and for the audit stream. Their
            ``X-Forwarded-Proto`` says whether browsers use TLS.
        user_header: the header in which these proxies name the user. The users file has these
            users; they need no password there.
        record: whether it records the history of the queues, which charts need, between the startup
            and the shutdown of its lifespan. Servers don't run that of a mounted application: put
            ``HistoryRecorder(queues)`` of ``rsmq.history`` into the lifespan of the outer one. Of
            any number of processes, one records each minute. A read-only server never does.
        redact: JSON paths such as ``customer.email``: who reads messages without receiving them
            does not see the values there, and no body that is not JSON. Entries of the users file
            may add paths, or see all.
        sqs: the region and the account in names of queues for clients of SQS, at ``/sqs`` and by
            ``app.state.sqs`` at the root. That one admits any access key unless ``users`` is
            passed; ``/sqs`` of a server with a key takes it as the secret of any access key.
        alerts: whether it sends alerts to their targets, as it records: what it may connect to.
            Of any number of processes, one sends each. None sends none; nor does a read-only
            server.

    Raises:
        MissingParameter: none of users, key and auth=False is passed.
        InvalidFormat: several of them are; an argument or the users file is not valid; or others
            may read the file.
    """
    callers = _find_users(users, key, auth=auth)
    paths = tuple(map(parse_path, redact))
    is_own = isinstance(queues, str)
    clients = _open(queues)
    names = [each.namespace.name for each in clients]
    gate = AccessGate(
        callers,
        EndedSessions(clients[0], read_only=read_only),
        allow_hosts=None if allow_hosts is None else tuple(allow_hosts),
        trusted_proxies=TrustedProxies(trusted_proxies),
        user_header=user_header,
        link_key=key,
    )

    def has_rights(name: str, principal: Principal) -> bool:
        return principal.has_namespace(name, is_first=name == names[0])

    def namespaces_of(principal: Principal) -> tuple[str, ...]:
        return tuple(name for name in names if has_rights(name, principal))

    from rsmq import __version__  # noqa: PLC0415 - a circle at the import

    def make_part(client: Client, its_gate: AccessGate) -> _Part:
        operations = Api(
            client,
            TABLE,
            read_only=read_only,
            redact=paths,
            namespaces_of=partial(_paths_of, namespaces_of, names[0]),
        )
        return _Part(
            its_gate.guard(operations),
            operations,
            its_gate,
            Site(
                its_gate, operations, SharedWalks(client), namespace=client.namespace.name,
                namespaces_of=namespaces_of, version=__version__, read_only=read_only,
            ),
            _documents(its_gate, namespaces_of, __version__, client.namespace.name),
        )  # fmt: skip

    parts = {
        name: make_part(client, gate.limited_to(partial(has_rights, name)))
        for name, client in zip(names, clients, strict=True)
    }
    first = parts[names[0]]
    # It answers like a namespace in which the caller has no rights.
    nowhere = make_part(clients[0], gate.limited_to(lambda _: False))
    rest_rsmq = first.gate.guard(RestRsmq(clients[0], read_only=read_only))

    has_rights_in_first = partial(has_rights, names[0])
    make_sqs = partial(Sqs, clients[0], gate, read_only=read_only, site=sqs or SqsSite())
    sqs_below = make_sqs(_sqs_signatures(callers, key, has_rights_in_first))
    sqs_at_root = make_sqs(_sqs_signatures(callers, key, has_rights_in_first, is_open=not users))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for client in clients:
                if is_own:
                    stack.push_async_callback(client.close)
                if record and not read_only:
                    await stack.enter_async_context(HistoryRecorder(client))
                if alerts is not None and not read_only:
                    removals = partial(read_removals, client, lambda _: True)
                    await stack.enter_async_context(AlertSender(client, alerts, removals))
                if not read_only:
                    await stack.enter_async_context(OperationRunner(client))
                    await stack.enter_async_context(TrashEmptier(client))
            yield

    # Also for those who have no rights in the first namespace.
    listing = gate.guard(_listing_of(first.operations))
    switch = request_response(namespace_switch(gate, namespaces_of, names[0]))
    api_of_namespaces = NamespacePaths(
        PREFIX, parts,
        nowhere=nowhere, listing=listing,
    )  # fmt: skip
    sites = {name: each.site for name, each in parts.items()}
    app = _Application(
        routes=[
            Route(PREFIX + _NAMESPACES, listing),
            _mount(PREFIX + _NAMESPACES, api_of_namespaces),
            Route(_NAMESPACES, namespace_switch(gate, namespaces_of, names[0])),
            _mount(_NAMESPACES, NamespacePaths("", sites, nowhere=nowhere.site, listing=switch)),
            # Also without a slash at the end, which Starlette would redirect before the gate.
            Route(PREFIX, first),
            _mount(PREFIX, first),
            Route("/rest-rsmq", rest_rsmq),
            _mount("/rest-rsmq", rest_rsmq),
            Route("/sqs", sqs_below),
            _mount("/sqs", sqs_below),
            Route("/healthz", healthz),
            Route("/readyz", readyz_of(clients)),
            Route("/metrics", gate.guard(request_response(metrics_of(clients, namespaces_of)))),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _answer_problem},
    )  # fmt: skip
    app.router.redirect_slashes = False  # its redirects would repeat any Host
    # For paths of no other part, so it hides none of them.
    app.router.default = first.site
    app.api, app.api_of_namespaces = first.api, api_of_namespaces
    app.state.rest_rsmq = rest_rsmq
    app.state.sqs = sqs_at_root
    app.state.end_waits = lambda: _end_all_waits(clients)
    return app


async def _end_all_waits(clients: Sequence[Client]) -> None:
    await asyncio.gather(*map(end_waits, clients))


@dataclass(frozen=True, slots=True)
class _Part:
    """
    The server of one namespace; called with a request below the path of its API.

    Attributes:
        operations: the API, for requests that were admitted.
        gate: admits callers with rights in the namespace.
        documents: the OpenAPI document, and the page with the API, by their paths.
    """

    api: Asgi
    operations: Api
    gate: AccessGate
    site: Site
    documents: Mapping[str, Asgi]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request below the path of the API."""
        await self.documents.get(path_of(scope), self.api)(scope, receive, send)


def _documents(
    gate: AccessGate, namespaces_of: NamespacesOf, version: str, namespace: str
) -> Mapping[str, Asgi]:
    document = make_document(TABLE, version, PREFIX)

    async def openapi(request: Request) -> Response:
        prefix, names = _address_of(request), namespaces_of(request.scope[PRINCIPAL])
        servers: list[dict[str, Any]] = [{"url": prefix}]
        if len(names) > 1 and NAMESPACE not in request.scope:
            servers.append(server_of_namespaces(prefix, names))
        return JSONResponse({**document, "servers": servers})

    async def docs(request: Request) -> Response:
        is_secure = gate.is_secure(request.url.scheme, request.headers, request.client)
        host = request.headers.get("host", "localhost")
        origin = f"{'https' if is_secure else 'http'}://{host}"
        page = make_api_page(TABLE, version, _address_of(request), origin, namespace)
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY, **_NO_SNIFF})

    return {
        _DOCUMENT: gate.guard(request_response(openapi)),
        _DOCS: gate.guard(request_response(docs)),
    }


def _address_of(request: Request) -> str:
    """Return the path of the API of a request that is below it."""
    scope = request.scope
    return quote(scope["root_path"].rstrip("/")) + path_of_namespace(scope.get(NAMESPACE, ""))


class _Application(Starlette):
    """An application that finds its API without Starlette's search, which takes longer."""

    api: Any = None
    api_of_namespaces: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not self.user_middleware:
            prefix = scope.get("root_path", "") + PREFIX
            path: str = scope["path"]
            if path.startswith(f"{prefix}/ns/"):
                scope["root_path"] = f"{prefix}/ns"
                await self.api_of_namespaces(scope, receive, send)
                return
            if path.startswith(f"{prefix}/") and path.removeprefix(prefix) not in _PAGES:
                scope["root_path"] = prefix
                await self.api(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


async def _answer_problem(request: Request, error: Any) -> Response:
    """Answer a path that no part of the server has, or not with this method."""
    is_path = error.status_code == _NOT_FOUND
    problem = HttpProblem(
        error.status_code,
        "notFound" if is_path else "methodNotAllowed",
        "There is no such path" if is_path else f"This path has no {request.method}",
        hint=f"The API is at {_prefix_of(request)}." if is_path else None,
    )
    return problem_response(problem, error.headers)


def _prefix_of(request: Request) -> str:
    """Return the path of the API, below that of a mount or of a proxy's prefix."""
    return quote(request.scope.get("root_path", "").rstrip("/")) + PREFIX


def _paths_of(namespaces_of: NamespacesOf, first: str, principal: Principal) -> dict[str, str]:
    shown = namespaces_of(principal)
    return {name: "" if name == first else path_of_namespace(name) for name in shown}


def _listing_of(operations: Api) -> Asgi:
    """Return an application that answers what its API answers at the path of the namespaces."""

    async def listing(scope: Any, receive: Any, send: Any) -> None:
        root = scope.get("root_path", "").removesuffix(PREFIX + _NAMESPACES) + PREFIX
        path = root + _NAMESPACES
        scope |= {"root_path": root, "path": path, "raw_path": quote(path, safe="/:").encode()}
        await operations(scope, receive, send)

    return listing


def _mount(path: str, app: Any) -> Mount:
    mount = Mount(path, app)
    # Also for names with a line end, which Starlette's dot does not match.
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


def _open(queues: Client | str | Sequence[Client]) -> list[Client]:
    if isinstance(queues, str):
        return [AsyncRSMQ.from_url(queues, **CLIENT_OPTIONS)]
    clients = [queues] if isinstance(queues, AsyncRSMQ) else queues
    if isinstance(clients, Sequence) and all(isinstance(each, AsyncRSMQ) for each in clients):
        names = {each.namespace.name for each in clients}
        if clients and len(names) == len(clients):
            return list(clients)
        raise InvalidFormat("queues", hint="Pass a client of each namespace, one or more.")
    raise InvalidFormat(
        "queues", value=show_type(queues), hint="It is an AsyncRSMQ, a list of them, or a URL."
    )


_MIN_KEY = 16


def _sqs_signatures(
    callers: Callable[[], Users] | None,
    key: str | None,
    has_rights: Callable[[Principal], bool],
    *,
    is_open: bool = False,
) -> Signatures | None:
    """Return what finds the callers of SQS; None admits any access key."""
    return None if callers is None or is_open else Signatures(callers, key, has_rights)


def _find_users(
    users: str | os.PathLike[str] | None, key: str | None, *, auth: bool
) -> Callable[[], Users] | None:
    if (users is not None) + (key is not None) + (not auth) != 1:
        passed = [
            name
            for name, is_passed in (
                ("users", users is not None),
                ("key", key is not None),
                ("auth=False", not auth),
            )
            if is_passed
        ]
        hint = "Pass one of users=FILE, key=TEXT and auth=False."
        if passed:
            raise InvalidFormat("authentication", value=" and ".join(passed), hint=hint)
        raise MissingParameter("authentication", hint=hint)
    if users is not None:
        return UsersFile(Path(users)).read
    if key is None:
        return None
    if len(key) < _MIN_KEY:
        raise InvalidFormat("key", hint=f"A key has at least {_MIN_KEY} characters.")
    of_key = users_of_key(key)
    return lambda: of_key
