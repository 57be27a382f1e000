"""
The command web.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import ipaddress
import os
import re
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit, Failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    import uvicorn
    from starlette.applications import Starlette


#: Seconds for answers that are being written when the server stops; receives that wait end.
_GRACE_SECONDS = 2
#: Seconds for which an idle connection stays open: longer than a proxy keeps it, which is 60 s for
#: nginx. Otherwise the proxy may send a request while the server closes it, and answer 502.
_KEEP_ALIVE_SECONDS = 75
#: A long poll has a hundred objects, which live for 20 seconds. So a collection of the young ones
#: goes through those of all polls: with 2,000, it takes 100 ms, in which no message is handed over.
#: The calls leave no cycles, so few collections are needed.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
#: Connections that wait to be accepted.
_BACKLOG = 2048
#: Open files are allowed up to this number, if the system permits it: each client needs one.
_OPEN_FILES = 65_536
#: The signals that stop the server. SIGHUP comes when its terminal is closed.
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@command(
    "web",
    "rsmq web",
    "rsmq web --users users.toml --host 0.0.0.0 --allow-host queues.example.com",
    "rsmq web --ns shop --ns billing",
)
@options(
    """
    --port PORT  Serve on this port; 0 chooses a free one.  [default: 8080]
    --host ADDRESS  Serve on this address; any but loopback needs --users.  [default: 127.0.0.1]
    --rest-rsmq-port PORT  Serve the routes of rest-rsmq on this port too, without a prefix.
    --sqs-port PORT  Serve clients of Amazon SQS on this port too. Without --users, it takes any
        access key.
    --sqs-region REGION  The region in the ARNs of queues.  [default: us-east-1]
    --sqs-account DIGITS  The account in the ARNs and URLs of queues.  [default: 000000000000]
    --users FILE  The users file; rsmq web-user makes its entries.
    --no-auth  Let every program of this machine do everything. Only on loopback.
    --read-only  Refuse all changes, receives included.
    --redact PATH...  Don't show the values at this path of JSON bodies, such as customer.email, to
        who reads messages without receiving them; repeatable.
    --allow-host NAME...  A name of this server in requests; on loopback there are some already.
    --root-path PATH  The prefix of the paths at a proxy in front, which may remove it or not.
    --trusted-proxy CIDR...  A network whose requests name their client in X-Forwarded-For, and use
        of TLS in X-Forwarded-Proto.
    --user-header NAME  The header in which such a proxy names the user.
    --tls-cert FILE  The certificate of the server.
    --tls-key FILE  The key of the certificate.
    --no-record  Don't record the history of the queues; nor does --read-only.
    --push  Push messages to the subscribers of queues too, as rsmq push does.
    --push-allow CIDR...  Allow these addresses to --push and to alerts though they are not public,
        as in 10.0.0.0/8.
    --push-proxy URL  Let --push and alerts connect through this proxy, as in
        http://proxy.example.org:3128. It must refuse addresses that are not public. The variable
        RSMQ_PUSH_PROXY may have the URL instead.
    --push-allow-http  Allow URLs with http to --push and to alerts, instead of https.
    """,
    users={"type": click.Path(dir_okay=False)},
    root_path={"default": ""},
    tls_cert={"type": click.Path(dir_okay=False)},
    tls_key={"type": click.Path(dir_okay=False)},
    push_proxy={"envvar": "RSMQ_PUSH_PROXY"},
)
def web(call: Call, /, **options: Any) -> None:
    """
    Serve the queues over HTTP, until stopped.

    It has a dashboard, an API in JSON under /api/v1, the routes of rest-rsmq under /rest-rsmq,
    Amazon SQS under /sqs, and /metrics, /healthz and /readyz. Without --users it makes a key, which
    it prints, and which may do everything. With --push it also pushes the messages of queues to
    their subscribers. It needs the extra web, and push for --push. With several --ns, paths without
    a namespace are those of the first one; the others have /ns/NAME/ and /api/v1/ns/NAME. Once a
    minute one of all servers of a namespace records the history of its queues, and one sends
    alerts to the targets of rsmq alerts, which needs the extra push; a server with --read-only
    does neither. It runs until Ctrl-C, SIGTERM or SIGHUP, and then says which.
    """
    _check(options)
    from rsmq.web import create_app  # noqa: PLC0415 - needs an extra
    from rsmq.web.access.gate import LOOPBACK_NAMES  # noqa: PLC0415 - as above
    from rsmq.web.access.secrets import make_token  # noqa: PLC0415 - as above
    from rsmq.web.client import open_clients  # noqa: PLC0415 - as above
    from rsmq.web.sqs.names import SqsSite  # noqa: PLC0415 - as above
    from rsmq.webhooks.proxy import Reach  # noqa: PLC0415 - as above

    reach = Reach.parse(options["push_allow"], options["push_allow_http"], options["push_proxy"])
    is_local = _is_loopback(options["host"])
    has_key = options["users"] is None and not options["no_auth"]
    key = make_token() if has_key else None
    names = (*LOOPBACK_NAMES, *options["allow_host"]) if is_local else options["allow_host"]

    async def serve() -> None:
        opening = open_clients(call.url, call.namespaces, call.client_options)
        async with opening as queues, _pushing(call, options):
            app = create_app(
                queues,
                users=options["users"],
                key=key,
                auth=not options["no_auth"],
                read_only=options["read_only"],
                allow_hosts=names or None,
                trusted_proxies=options["trusted_proxy"],
                user_header=options["user_header"],
                record=not options["no_record"],
                redact=options["redact"],
                sqs=SqsSite(options["sqs_region"], options["sqs_account"]),
                alerts=reach,
            )
            async with app.router.lifespan_context(app):
                await _serve(call, app, options, key)

    with contextlib.suppress(OSError):  # a standard error without a file descriptor
        faulthandler.enable()
    _allow_open_files()
    try:
        with asyncio.Runner(loop_factory=_find_loop()) as runner:
            runner.run(serve())
    except BrokenPipeError as error:  # the frame of the programs would end without a word
        raise Failed(f"The server has ended: {error}", exit=Exit.NOT_ALL, code="ended") from error


def _find_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: uvloop takes less time, where it can be installed."""
    try:
        import uvloop  # noqa: PLC0415 - as above
    except ImportError:
        return None
    return uvloop.new_event_loop


def _allow_open_files() -> None:
    """Raise the limit of open files, whose default of 1,024 is too low for many waiting clients."""
    try:
        import resource  # noqa: PLC0415 - Windows has none
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.asynccontextmanager
async def _pushing(call: Call, options: dict[str, Any]) -> AsyncIterator[None]:
    """Push to the subscribers of all queues meanwhile, in threads, if that is wanted."""
    if not options["push"]:
        yield
        return
    from rsmq.push.pusher import SubscriberPusher  # noqa: PLC0415 - needs an extra
    from rsmq.worker.logging import log_to_standard_error  # noqa: PLC0415 - takes time

    log_to_standard_error("info", lambda: None, as_json=call.as_json)
    with call.open_each(retry_deadline=None) as clients:
        async with contextlib.AsyncExitStack() as stack:
            for queues in clients:
                pusher = SubscriberPusher(
                    queues,
                    allow=options["push_allow"],
                    allow_http=options["push_allow_http"],
                    proxy=options["push_proxy"],
                )
                pusher.start()
                stack.push_async_callback(asyncio.to_thread, pusher.stop)
            yield


def _check(options: dict[str, Any]) -> None:
    is_local = _is_loopback(options["host"])
    if options["no_auth"] and options["users"]:
        raise Failed("Pass one of --users and --no-auth")
    if options["users"] is None and not is_local:
        raise Failed(
            f"Without --users, only programs of this machine may call, not those of "
            f"{options['host']}",
            hint="Make a users file with rsmq web-user, or serve on 127.0.0.1.",
        )
    if options["user_header"] and not options["trusted_proxy"]:
        raise Failed("--user-header needs --trusted-proxy, whose requests have it")
    if options["user_header"] and options["users"] is None:
        raise Failed("--user-header needs --users, which has the rights of each user")
    if (options["push_allow"] or options["push_allow_http"]) and options["read_only"]:
        raise Failed(
            "--push-allow and --push-allow-http are not for --read-only, which pushes nothing"
        )
    if options["push"] and options["read_only"]:
        raise Failed("Pass one of --push and --read-only", hint="A push deletes its message.")
    if not options["sqs_account"].isascii() or not options["sqs_account"].isdecimal():
        raise Failed("--sqs-account has digits only, such as 123456789012")
    if not re.fullmatch(r"[A-Za-z0-9-]+", options["sqs_region"]):
        raise Failed("--sqs-region is the name of a region, such as us-east-1")
    if bool(options["tls_cert"]) != bool(options["tls_key"]):
        raise Failed("--tls-cert and --tls-key need each other")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(call: Call, app: Starlette, options: dict[str, Any], key: str | None) -> None:
    host = options["host"]
    with contextlib.ExitStack() as sockets:
        listeners = [sockets.enter_context(_listen(host, options["port"]))]
        servers = [_make_server(app, options, app.state.end_waits)]
        more = {"the routes of rest-rsmq": (options["rest_rsmq_port"], app.state.rest_rsmq)}
        more["Amazon SQS"] = options["sqs_port"], app.state.sqs
        texts = [text for text, (port, _) in more.items() if port is not None]
        for text in texts:
            port, its_app = more[text]
            listeners.append(sockets.enter_context(_listen(host, port)))
            servers.append(_make_server(its_app, options, app.state.end_waits))

        received: list[signal.Signals] = []
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            received.append(number)
            for server in servers:
                server.should_exit = True

        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
                loop.add_signal_handler(number, stop, number)
        scheme = "https" if options["tls_cert"] else "http"
        name = f"[{host}]" if ":" in host else host
        ports = [listener.getsockname()[1] for listener in listeners]
        address = f"{scheme}://{name}:{ports[0]}"
        entry = address if key is None else f"{address}/?key={key}"
        _note(call, f"{address}/api/v1: Ctrl-C ends it")
        for port, text in zip(ports[1:], texts, strict=True):
            _note(call, f"{scheme}://{name}:{port}: {text}")
        if key is not None:
            _note(call, f"The key of this run: {key}")
            _note(call, f"curl -u :{key} {address}/api/v1/queues")
        _note(call, f"The dashboard: {entry}")
        gc.freeze()  # else each full collection goes through all modules, which takes 50 ms
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        await asyncio.gather(
            *(server.serve([listener]) for server, listener in zip(servers, listeners, strict=True))
        )
        if not received:
            raise Failed("The server has ended by itself", exit=Exit.NOT_ALL, code="ended")
        _note(call, f"Stopped by {received[0].name}")


def _note(call: Call, text: str) -> None:
    """Write a line for people. The server runs on if its reader has closed the pipe."""
    try:
        call.out.note(text)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _make_server(
    app: Any, options: dict[str, Any], end_waits: Callable[[], Coroutine[Any, Any, None]]
) -> uvicorn.Server:
    import uvicorn  # noqa: PLC0415 - needs an extra

    from rsmq.web.connection import WatchedConnection  # noqa: PLC0415 - as above
    from rsmq.web.root_path import RootPath  # noqa: PLC0415 - as above

    class _Server(uvicorn.Server):
        def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
            """Leave signals alone: those of one server would not stop the other."""
            return contextlib.nullcontext()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End the waits when each connection is to be closed with its answer, not before."""
            ending = asyncio.create_task(end_waits())
            await super().shutdown(sockets)
            await ending

    return _Server(
        uvicorn.Config(
            RootPath(app, options["root_path"]) if options["root_path"] else app,
            http=WatchedConnection,
            access_log=False,  # paths may contain secrets
            log_level="warning",
            lifespan="off",
            proxy_headers=False,  # the address of a client is that of its connection
            server_header=False,
            ssl_certfile=options["tls_cert"],
            ssl_keyfile=options["tls_key"],
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    # With the protocol, which create_server leaves out: otherwise asyncio does not set TCP_NODELAY,
    # and an answer waits 40 ms for the acknowledgement of its headers.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        text = getattr(error, "strerror", None) or str(error)
        raise Failed(f"{host}, port {port}: {text}") from None
    return listener
