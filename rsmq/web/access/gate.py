"""
Decides about each request before anything else: its Host, its origin, and who sends it.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

from rsmq.web.access.attempts import Attempts
from rsmq.web.access.ended_sessions import EndedSessions
from rsmq.web.access.principals import EVERYONE, Principal, namespace_not_found, unauthorized
from rsmq.web.access.proxies import TrustedProxies
from rsmq.web.access.secrets import hash_token, is_password
from rsmq.web.access.sessions import Session, find_session, session_of_token, session_of_user
from rsmq.web.access.users import Users
from rsmq.web.fields import Refused
from rsmq.web.problems import describe, send_problem
from rsmq.web.requests import headers_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Where the gate stores the caller in the scope of a request, the headers by names in lower case,
#: the address of the client, and whether the browser uses TLS.
PRINCIPAL = "rsmq.principal"
HEADERS = "rsmq.headers"
ADDRESS = "rsmq.address"
IS_SECURE = "rsmq.is_secure"
#: A function that returns who the caller is now, or raises Refused.
ADMIT_AGAIN = "rsmq.admit_again"

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

#: Passwords that were right, in this process: a digest with a key of this process.
_MAX_REMEMBERED = 1000
#: Passwords are checked one after the other, so that attempts don't take all processors.
_MAX_CHECKS = 1


class AccessGate:
    """The rules of a server."""

    def __init__(
        self,
        users: Callable[[], Users] | None,
        ended: EndedSessions,
        *,
        allow_hosts: tuple[str, ...] | None,
        trusted_proxies: TrustedProxies,
        user_header: str | None = None,
        link_key: str | None = None,
    ) -> None:
        """
        Make the rules.

        Args:
            users: returns those who may call now; None lets everyone do everything.
            ended: the sessions that count no more.
            allow_hosts: the names in Host, without ports; None allows any.
            trusted_proxies: their requests name the address of the client, and the user.
            user_header: the name of the header with the user.
            link_key: the token that begins a session once by a link; None has no link.
        """
        self._read_users = users
        self._ended = ended
        self._hosts = None if allow_hosts is None else {each.lower() for each in allow_hosts}
        self._proxies = trusted_proxies
        self._user_header = user_header and user_header.lower()
        self._link_key = link_key
        self._is_link_used = False
        self._attempts = Attempts()
        self._key = secrets.token_bytes(32)
        self._remembered: dict[bytes, None] = {}
        self._checks = asyncio.Semaphore(_MAX_CHECKS)
        self._has_rights: Callable[[Principal], bool] = lambda _: True

    def limited_to(self, has_rights: Callable[[Principal], bool]) -> AccessGate:
        """
        Return a gate for a part of the server, which shares what this one remembers.

        Args:
            has_rights: returns whether a caller has rights there. For others the part does not
                exist.
        """
        gate = copy.copy(self)
        gate._has_rights = has_rights  # noqa: SLF001 - of this class
        return gate

    @property
    def has_link(self) -> bool:
        """Whether a link with a key may begin a session."""
        return self._link_key is not None

    def guard(self, app: Asgi) -> Asgi:
        """Return an application that gets only requests that are admitted."""
        return _Guarded(self, app)

    def address_of(self, headers: Mapping[str, str], peer: Any) -> str:
        """Return the address of the client: that of the connection, or what a proxy says."""
        return self._proxies.client_of(peer[0] if peer else "", headers)

    def is_secure(self, scheme: str, headers: Mapping[str, str], peer: Any) -> bool:
        """Return whether the browser uses TLS, up to the server or to a trusted proxy."""
        forwarded = headers.get("x-forwarded-proto") if peer and peer[0] in self._proxies else None
        return (forwarded or scheme) == "https"

    async def admit(self, headers: Mapping[str, str], peer: Any, *, is_secure: bool) -> Principal:
        """
        Return who sends a request.

        Args:
            is_secure: whether the browser uses TLS.

        Raises:
            Refused: Host or the origin is another site, the caller is not known, or it has no
                rights in this part of the server.
        """
        principal = await self._find_caller(headers, peer, is_secure=is_secure)
        if not self._has_rights(principal):
            raise namespace_not_found()
        return principal

    async def _find_caller(
        self, headers: Mapping[str, str], peer: Any, *, is_secure: bool
    ) -> Principal:
        self.check_site(headers, is_secure=is_secure)
        if self._read_users is None:
            return EVERYONE
        users = self._read_users()
        if (found := self._find_proxied(users, headers, peer)) is not None:
            return found
        # A token can't be guessed, so it is not locked out with the passwords of its address.
        if (found := _find_token(users, headers)) is not None:
            return found
        if (session := await self.find_session(headers)) is not None:
            return session.principal
        address = self.address_of(headers, peer)
        self._check_attempts(address)
        if (found := await self._find_user(users, headers, address)) is None:
            if "authorization" in headers:
                self._attempts.note_failure(address)
            raise unauthorized("The caller is not known")
        return found

    async def find_session(self, headers: Mapping[str, str]) -> Session | None:
        """Return the session of a request that has one which has not ended."""
        found = find_session(self._read_users(), headers) if self._read_users else None
        return None if found is None or await self._ended.has(found) else found

    async def log_out(
        self, headers: Mapping[str, str], *, is_secure: bool, everywhere: bool
    ) -> None:
        """
        End the session of a request, if it has one.

        Args:
            is_secure: whether the browser uses TLS.
            everywhere: whether the other sessions of its owner end too.

        Raises:
            Refused: Host or the origin is another site.
        """
        self.check_site(headers, is_secure=is_secure)
        if (session := await self.find_session(headers)) is not None:
            await self._ended.end(session, everywhere=everywhere)

    async def log_in(
        self, headers: Mapping[str, str], peer: Any, name: str, secret: str, *, is_secure: bool
    ) -> str:
        """
        Return the value of the cookie of a new session.

        Args:
            name: of a user; with an empty one, the secret is a token.
            secret: a password or a token.
            is_secure: whether the browser uses TLS.

        Raises:
            Refused: Host or the origin is another site, or the secret is wrong.
        """
        self.check_site(headers, is_secure=is_secure)
        address = self.address_of(headers, peer)
        users = self._read_users() if self._read_users else Users()
        if hash_token(secret) in users.tokens:
            return session_of_token(secret)
        self._check_attempts(address)
        pair = base64.b64encode(f"{name}:{secret}".encode(errors="replace")).decode()
        basic = {"authorization": f"Basic {pair}"}
        if await self._find_user(users, basic, address) is None:
            self._attempts.note_failure(address)
            raise Refused("unauthorized", "The name or the secret is wrong", status=401)
        return session_of_user(users, name)

    async def log_in_by_link(
        self, headers: Mapping[str, str], peer: Any, key: str, *, is_secure: bool
    ) -> str:
        """
        Return the value of the cookie of the session that the link of this server begins once.

        Only the server's own key is in a link: with the token of another caller, a link on another
        site would let people work as this caller.

        Raises:
            Refused: as for ``log_in``; or the link was used before.
        """
        session = await self.log_in(headers, peer, "", key, is_secure=is_secure)
        if self._is_link_used:
            raise Refused(
                "linkUsed",
                "This link was used before: log in with the key, without a name",
                status=401,
            )
        self._is_link_used = True
        return session

    def _check_attempts(self, address: str) -> None:
        if wait := self._attempts.seconds_to_wait(address):
            raise Refused(
                "tooManyAttempts",
                "Too many failed attempts",
                status=429,
                headers={"Retry-After": str(wait)},
            )

    def check_site(self, headers: Mapping[str, str], *, is_secure: bool) -> None:
        """
        Check the name of the server and the origin of a request.

        Args:
            is_secure: whether the browser uses TLS.

        Raises:
            Refused: Host or the origin is another site.
        """
        self.check_host(headers)
        _check_origin(headers, is_secure=is_secure)

    def check_host(self, headers: Mapping[str, str]) -> None:
        """
        Check the name of the server in a request.

        Raises:
            Refused: it is another one.
        """
        if self._hosts is None:
            return
        name = _host_of(f"//{headers.get('host', '')}")
        if name not in self._hosts:
            raise Refused(
                "unknownHost",
                "This server does not have this name",
                status=421,
                value=(name or "")[:80],
                hint="Add it with --allow-host.",
            )

    def _find_proxied(
        self, users: Users, headers: Mapping[str, str], peer: Any
    ) -> Principal | None:
        if self._user_header is None or peer is None or peer[0] not in self._proxies:
            return None
        return users.principals.get(headers.get(self._user_header, ""))

    async def _find_user(
        self, users: Users, headers: Mapping[str, str], address: str
    ) -> Principal | None:
        name, password = _name_and_password(headers)
        if not name:
            return None
        stored = users.passwords.get(name)
        text = f"{name}\0{stored}\0{password}".encode(errors="surrogatepass")
        digest = hmac.digest(self._key, text, hashlib.sha256)
        if digest not in self._remembered:
            async with self._checks:
                self._check_attempts(address)  # others have failed while this one waited
                # An unknown name takes as long as a wrong password.
                is_right = await asyncio.to_thread(is_password, password, stored or _NOBODY)
            if not is_right or stored is None:
                return None
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[digest] = None
        return users.principals[name]


def _find_token(users: Users, headers: Mapping[str, str]) -> Principal | None:
    # curl -u :TOKEN, and -u NAME:TOKEN, for programs that know user and password only.
    kind, _, value = headers.get("authorization", "").partition(" ")
    token = value.strip() if kind.lower() == "bearer" else _name_and_password(headers)[1]
    # A look-up by the hash tells nothing about the token by its time.
    return users.tokens.get(hash_token(token))


def _name_and_password(headers: Mapping[str, str]) -> tuple[str, str]:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return name, password


#: The hash of no password.
_NOBODY = "scrypt$16384$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + base64.b64encode(bytes(64)).decode()


class _Guarded:
    """An application behind a gate; an object, because Starlette calls functions otherwise."""

    def __init__(self, gate: AccessGate, app: Asgi) -> None:
        self._gate = gate
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers, peer = headers_of(scope), scope.get("client")
            scope[HEADERS] = headers
            is_secure = self._gate.is_secure(scope.get("scheme", "http"), headers, peer)
            scope[IS_SECURE] = is_secure
            admit = partial(self._gate.admit, headers, peer, is_secure=is_secure)
            scope[ADMIT_AGAIN] = admit
            scope[PRINCIPAL] = await admit()
            scope[ADDRESS] = self._gate.address_of(headers, peer)
        except Refused as error:
            await send_problem(send, describe(error, may_repeat=True))
            return
        await self._app(scope, receive, send)


def _check_origin(headers: Mapping[str, str], *, is_secure: bool) -> None:
    """Refuse what a page of another site makes a browser send."""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin")
    if site not in {"none", "same-origin"}:
        raise _cross_site(origin)
    if origin is not None:
        _check_site(origin, headers, is_secure=is_secure)


def check_referer(headers: Mapping[str, str], *, is_secure: bool) -> None:
    """
    Refuse a GET that receives if a page of another site has made a browser send it.

    Without TLS, browsers send a GET with Referer alone. Links to what changes nothing are let in.
    """
    referer = headers.get("referer")
    if referer and "sec-fetch-site" not in headers and "origin" not in headers:
        _check_site(referer, headers, is_secure=is_secure)


def _check_site(url: str, headers: Mapping[str, str], *, is_secure: bool) -> None:
    # An attacker who can change traffic without TLS can put anything into a page of the same host.
    # Without TLS here, a page with TLS is let in: a proxy that is not trusted may have ended it.
    is_weaker = is_secure and not url.lower().startswith("https:")
    if is_weaker or _netloc_of(url) != headers.get("host", "").lower():
        raise _cross_site(url)


def _cross_site(value: str | None) -> Refused:
    return Refused("crossSite", "A page of another site has sent this", status=403, value=value)


def _netloc_of(url: str) -> str | None:
    try:
        return urlsplit(url).netloc.lower() or None
    except ValueError:
        return None


@lru_cache(128)
def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
