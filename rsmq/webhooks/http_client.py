"""
The HTTP client of webhooks. Needs the extra ``push``; without it, the import raises MissingExtra.

It connects only to addresses that the rules allow: the resolver's answer is checked, and the socket
is made for an address that is checked once more. With a proxy it connects to the proxy only, which
looks the names up. It follows no redirects, uses no settings of the environment, keeps no cookies,
and does not decompress answers.

The text of a failure is for all who may see the webhook, so it names no address of a name, and no
proxy. The log has them.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any

from rsmq import __version__
from rsmq.errors import InvalidFormat, MissingExtra
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.webhooks.addresses import ANY_ADDRESS, AddressRefused, AddressRules
from rsmq.webhooks.answers import STORED_ANSWER_BYTES, Answer
from rsmq.webhooks.exchange import Exchange, ExchangeTimeLimit, current_exchange
from rsmq.webhooks.lookups import look_up
from rsmq.webhooks.proxy import Proxy
from rsmq.webhooks.targets import Target, check_host

try:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
    from yarl import URL

    from rsmq.webhooks.observed_connection import observe_connections
except ImportError as error:
    raise MissingExtra("push", "A webhook") from error

_log = get_logger("rsmq.push")

#: The time for a push, from the lookup of the name to the end of the answer.
TIMEOUT_SECONDS = 10.0
#: The part of an answer that is read. The connection of a longer answer is closed.
MAX_ANSWER_BYTES = 65_536
#: How long the body of a 2xx is waited for, only so that its connection can be used again.
_BODY_OF_SUCCESS_SECONDS = 1.0
_KEEP_ALIVE_SECONDS = 15.0
#: A larger body is sent in parts.
_BYTES_SENT_AT_ONCE = 2**20
#: How often a request is repeated because the target had closed its connection before.
_MAX_STALE_CONNECTIONS = 3


class PushClient:
    """Pushes bodies to one target, over connections that are used again."""

    def __init__(
        self,
        target: Target,
        rules: AddressRules,
        headers: Mapping[str, str],
        *,
        proxy: Proxy | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """
        Make it; it connects with the first push.

        Args:
            rules: the addresses that it may connect to.
            headers: headers of all requests.
            proxy: the proxy that connects to the target; None connects directly.
            timeout: seconds for a push, in all.

        Raises:
            InvalidFormat: the URL is ambiguous: its parts differ from one parser to another; or its
                host is an address that is not allowed.
        """
        self._target = target
        self._rules = rules
        self._headers = {
            "Accept-Encoding": "identity",
            "User-Agent": f"rsmq/{__version__}",
            **headers,
        }
        self._proxy: dict[str, Any] = {}
        if proxy is not None:
            self._proxy["proxy"] = URL(proxy.url)
        self._timeout = timeout
        self._logged = ""
        self._opened: tuple[aiohttp.ClientSession, ExchangeTimeLimit] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._url = URL(target.url)
            is_same = URL.build(scheme="https", host=target.host).raw_host == self._url.raw_host
        except ValueError:
            is_same = False
        if not is_same:
            raise InvalidFormat(
                "url", value=target.shown, hint="Its host can be read in several ways."
            )
        if proxy is not None and proxy.login is not None:
            # Bytes through a tunnel are for the target.
            is_tunnel = self._url.scheme == "https"
            headers_of_proxy = self._proxy.setdefault("proxy_headers", {})
            (headers_of_proxy if is_tunnel else self._headers)["Proxy-Authorization"] = proxy.login
        # In characters that only this client reads as those of an address.
        check_host(self._url.raw_host or "", target.shown, rules)

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """
        Push a body, and return the answer. A failure is an answer without a status.

        Args:
            headers: further headers, of this request.
        """
        session, limit = self._open_session()
        exchange = limit.begin()
        current_exchange.set(exchange)
        try:
            return await self._post(session, limit, exchange, body, headers)
        except asyncio.CancelledError:
            if not exchange.was_only_cancelled_by_limit():
                raise
            text = f"no answer within {format_count(self._timeout, 'second')}"
            return exchange.answer() or Answer(None, text)
        finally:
            limit.end(exchange)
            exchange.leave_connection()

    async def _post(
        self,
        session: aiohttp.ClientSession,
        limit: ExchangeTimeLimit,
        exchange: Exchange,
        body: bytes,
        headers: Mapping[str, str],
    ) -> Answer:
        stale_connections = 0
        while True:
            data = (
                aiohttp.BytesPayload(body) if len(body) <= _BYTES_SENT_AT_ONCE else io.BytesIO(body)
            )
            try:
                response = await session.post(
                    self._url, data=data, headers=headers, allow_redirects=False, **self._proxy
                )
                break
            except (aiohttp.ClientError, OSError, ValueError) as error:
                answer = exchange.answer()
                if answer is not None:  # only the rest of the answer is broken
                    return answer
                # The target may have closed a connection of an earlier push at this moment.
                is_closed = isinstance(error, aiohttp.ClientConnectionError | ConnectionError)
                is_stale = is_closed and exchange.is_connection_stale
                if not is_stale or stale_connections == _MAX_STALE_CONNECTIONS:
                    return Answer(None, self._describe(error))
                stale_connections += 1
                exchange.leave_connection()
        limit.end(exchange)  # the status line has decided
        if response.content.at_eof():  # without a body, or all of it has come
            return _make_answer(response, response.content.read_nowait(-1))
        return await self._read_answer(response, exchange.deadline)

    async def _read_answer(self, response: aiohttp.ClientResponse, deadline: float) -> Answer:
        """Read the body of an answer, and return the answer."""
        try:
            is_success = 200 <= response.status < 300  # noqa: PLR2004 - the class of success
            until = asyncio.get_running_loop().time() + _BODY_OF_SUCCESS_SECONDS
            stored = await self._read(response, min(deadline, until) if is_success else deadline)
            return _make_answer(response, stored)
        finally:
            # Closes the connection, unless the answer was read to its end.
            response.close()

    @staticmethod
    async def _read(response: aiohttp.ClientResponse, deadline: float) -> bytes:
        """Read the body of an answer as far as it comes, and return its beginning."""
        stored = bytearray()
        left = MAX_ANSWER_BYTES
        try:
            async with asyncio.timeout_at(deadline):
                while left > 0:
                    chunk = await response.content.read(left)
                    if not chunk:
                        break
                    left -= len(chunk)
                    stored += chunk[: STORED_ANSWER_BYTES - len(stored)]
        except (aiohttp.ClientError, OSError, ValueError):
            pass  # the status line has decided
        return bytes(stored)

    def _open_session(self) -> tuple[aiohttp.ClientSession, ExchangeTimeLimit]:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._loop is not loop:
            context = None
            if self._url.scheme == "https":
                context = ssl.create_default_context()
                context.set_alpn_protocols(["http/1.1"])
            connector = aiohttp.TCPConnector(
                ssl=True if context is None else context,
                resolver=_CheckedResolver(ANY_ADDRESS if self._proxy else self._rules),
                socket_factory=self._make_socket,
                use_dns_cache=False,
                limit=0,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
            )
            observe_connections(connector, is_tls=context is not None)
            self._loop = loop
            session = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                read_bufsize=MAX_ANSWER_BYTES,
            )
            self._opened = session, ExchangeTimeLimit(self._timeout)
        return self._opened

    def _make_socket(self, address: Any) -> socket.socket:
        """Make the socket for a connection. This is the last check of its address."""
        family, kind, protocol, _, place = address
        if not self._proxy:
            self._rules.check(place[0])
        made = socket.socket(family=family, type=kind, proto=protocol)
        current = current_exchange.get()
        if current is not None:
            current.is_connection_new = True
        return made

    def _describe(self, error: BaseException) -> str:
        """Return the text of a failure, and log what it leaves out."""
        text, details = _describe(error, self._url.raw_host or "")
        if details and details != self._logged:
            self._logged = details
            _log.warning("%s: %s", self._target.shown, details)
        return text

    async def close(self) -> None:
        """Close the connections, in the event loop that has used them."""
        opened, self._opened = self._opened, None
        if opened is not None:
            session, limit = opened
            limit.close()
            await session.close()


class _CheckedResolver(AbstractResolver):
    """Resolves names, and leaves out the addresses that the rules refuse."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        allowed: list[ResolveResult] = []
        refusal = None
        for each in await look_up(host, family):
            try:
                self._rules.check(each.text)
            except AddressRefused as error:
                refusal = error
            else:
                allowed.append(
                    ResolveResult(
                        hostname=host,
                        host=each.text,
                        port=port,
                        family=each.family,
                        proto=each.protocol,
                        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    )
                )
        if not allowed and refusal is not None:
            raise refusal
        return allowed

    async def close(self) -> None:
        """Do nothing: the threads of look-ups end by themselves."""


def _make_answer(response: aiohttp.ClientResponse, body: bytes) -> Answer:
    return Answer(
        response.status,
        response.reason or "",
        body[:STORED_ANSWER_BYTES],
        response.headers.get("Retry-After"),
    )


def _describe(error: BaseException, host: str) -> tuple[str, str]:  # noqa: PLR0911 - a table
    """
    Return the text of a failure, without the URL; and for the log what the text leaves out.

    Args:
        host: the host of the target.
    """
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses the connection: {error.status} {error.message}", ""
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "no connection to the proxy", f"no connection to the proxy: {error.os_error}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            text = f"the host {host!r} has no address that may be connected to; see the log"
            return text, str(cause)
        cause = cause.__cause__
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        if error.host != host:
            return "the proxy was not found", f"the proxy {error.host!r} was not found"
        return f"the host {host!r} was not found", ""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is refused: {error.certificate_error}", ""
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number) if number else "several addresses, and none answers"
        return f"no connection: {reason}", "" if number else str(error.os_error)
    return _describe_broken(error), ""


def _describe_broken(error: BaseException) -> str:
    """Return the text of a failure after the connection was made."""
    if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
        return "the connection was closed before an answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not HTTP: {error.message}"
    return f"no answer: {type(error).__name__}"
