"""
SQS as an ASGI application: reads a request, finds its caller, runs it, and answers.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from rsmq.errors.guarded_log import get_logger
from rsmq.search.redaction import Redaction
from rsmq.web import delivery
from rsmq.web.access.gate import AccessGate, Receive, Send, check_referer
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import EVERYONE, Principal
from rsmq.web.audit import AuditEntry, facts_of
from rsmq.web.client import Client
from rsmq.web.json_requests import LARGE_BYTES
from rsmq.web.liveness import client_for_long_call
from rsmq.web.problems import describe
from rsmq.web.requests import headers_of, path_of, read_bytes
from rsmq.web.sqs.actions import ACTIONS, WITHOUT_QUEUE
from rsmq.web.sqs.calls import SqsAnswer, SqsCall, SqsOperation, SqsState
from rsmq.web.sqs.errors import SqsError, as_sqs_error
from rsmq.web.sqs.names import SqsSite, name_of_url, to_stored
from rsmq.web.sqs.protocols import (
    Refuse,
    SqsRequest,
    is_json_request,
    read_request,
    refuse_in_json,
    refuse_in_xml,
)
from rsmq.web.sqs.queue_attributes import ReadAttributes
from rsmq.web.sqs.queue_records import QueueRecord, QueueRecords
from rsmq.web.sqs.receipts import ReceiptSigner
from rsmq.web.sqs.signatures import Signatures
from rsmq.web.table import ApiCall, Scope
from rsmq.web.walks import QueueWalks

#: A MiB of messages, each character of which takes at most six bytes, and the JSON around them.
MAX_BODY_BYTES = 7 * 1024 * 1024
#: The characters of a name that an audit records: one to create may have any.
_MAX_RECORDED = 200
_NOT_FOUND, _SERVER_FAULT = 404, 500
_NO_QUEUE, _NO_REDACTION = QueueRecord("", ""), Redaction()

_log = get_logger("rsmq.web")


class Sqs:
    """The operations of SQS, on a client."""

    def __init__(
        self,
        queues: Client,
        gate: AccessGate,
        signatures: Signatures | None,
        *,
        read_only: bool,
        site: SqsSite,
    ) -> None:
        """
        Make it; nothing is read.

        Args:
            gate: the rules for hosts and origins.
            signatures: finds callers by their signatures; None lets everyone do everything.
            read_only: whether all changes are refused.
            site: the region and the account of names.
        """
        records = QueueRecords(queues)
        attributes = ReadAttributes(queues, records, site)
        self._state = SqsState(site, records, ReceiptSigner(queues), attributes)
        self._queues, self._gate, self._signatures = queues, gate, signatures
        self._read_only = read_only
        self._walks = QueueWalks(queues)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        departure = delivery.Departure(receive, scope)
        reply = _Reply(scope, send, str(uuid.uuid4()))
        refuse: Refuse = refuse_in_xml
        try:
            headers = headers_of(scope)
            if is_json_request(headers):
                refuse = refuse_in_json
            principal, body = await self._admit(scope, headers, receive)
            read = partial(
                read_request, headers, scope["query_string"], _path_of_queue(scope), body
            )
            request = await asyncio.to_thread(read) if len(body) > LARGE_BYTES else read()
            api = self._api_call(scope, principal, headers, departure)
            base_of = partial(self._base_of, scope, headers)
            answer = await self._run(request, _find(request, scope), base_of, api)
            media_type, content = request.answer(answer.content, reply.id)
            await delivery.check_presence(self._queues, answer.messages, departure)
            delivery.release_if_unread(scope, self._queues, answer.messages)
            try:
                await reply.send_whole(200, media_type, content)
            except OSError:
                await delivery.release(self._queues, answer.messages)
        except delivery.ClientLeft:
            return
        except Exception as error:  # noqa: BLE001 - each error has an answer
            await reply.send_error(error, refuse)
        finally:
            departure.end()

    async def _admit(
        self, scope: AsgiScope, headers: Mapping[str, str], receive: Receive
    ) -> tuple[Principal, bytes]:
        """
        Return the caller and the body.

        Raises:
            SqsError, Refused: the caller is not known, or the request is one of another site.
        """
        is_secure = self._is_secure(scope, headers)
        self._gate.check_site(headers, is_secure=is_secure)
        check_referer(headers, is_secure=is_secure)
        if self._signatures is None:
            return EVERYONE, await read_bytes(receive, headers, MAX_BODY_BYTES)
        query = scope["query_string"]
        # Not before the key is known: a body takes memory.
        claim = self._signatures.read(headers, query)
        body = await read_bytes(receive, headers, MAX_BODY_BYTES)
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        return claim.verify(scope["method"], path, headers, query, body), body

    def _is_secure(self, scope: AsgiScope, headers: Mapping[str, str]) -> bool:
        return self._gate.is_secure(scope.get("scheme", "http"), headers, scope.get("client"))

    def _base_of(self, scope: AsgiScope, headers: Mapping[str, str]) -> str:
        """Return the address below which the URLs of queues are, as the client sees it."""
        scheme = "https" if self._is_secure(scope, headers) else "http"
        host = headers.get("host", "localhost")
        return f"{scheme}://{host}{scope.get('root_path', '').rstrip('/')}"

    def _api_call(
        self,
        scope: AsgiScope,
        principal: Principal,
        headers: Mapping[str, str],
        departure: delivery.Departure,
    ) -> ApiCall:
        address = self._gate.address_of(headers, scope.get("client"))

        async def keeps_rights() -> bool:
            return self._signatures is None or self._signatures.has(principal)

        return ApiCall(
            self._queues, {}, {}, b"", headers,
            partial(principal.check, read_only=self._read_only), departure.wait, _NO_REDACTION,
            keeps_rights, principal.name, address, self._read_only, self._walks,
        )  # fmt: skip

    async def _run(
        self, request: SqsRequest, operation: SqsOperation, base_of: Callable[[], str], api: ApiCall
    ) -> SqsAnswer:
        parameters, queue = request.parameters, _NO_QUEUE
        if operation.has_queue:
            name = name_of_url(parameters.get("QueueUrl"))
            api.allow(operation.scope, to_stored(name))
            queue = await self._state.records.find(name, fresh=operation.is_fresh)
        else:
            name = str(parameters.get("QueueName") or "")
            api.allow(operation.scope, to_stored(name) if name else None)  # type: ignore[arg-type]
        call = SqsCall(self._state, parameters, queue, base_of, api)
        if operation.scope not in {Scope.MANAGE, Scope.DESTROY}:
            return await operation.handler(call)
        if operation.is_long:
            client = await client_for_long_call(self._queues)
            call = replace(call, api=replace(api, queues=client))
        names = {"queue": to_stored(name)[:_MAX_RECORDED]}
        facts = facts_of(api.caller, api.address, f"SQS {request.operation}", names, {})
        entry = AuditEntry(self._queues, facts, is_destroying=operation.scope is Scope.DESTROY)
        return await entry.record(operation.handler(call), lambda _: {"outcome": "200"})


def _path_of_queue(scope: AsgiScope) -> str:
    """Return the path if it may be that of a queue, as ``0/orders``; empty at the root."""
    return path_of(scope).strip("/")


def _find(request: SqsRequest, scope: AsgiScope) -> SqsOperation:
    name = request.operation
    if not name:
        raise SqsError("InvalidAction", "The request has no action.", _NOT_FOUND)
    is_misplaced = (
        name in WITHOUT_QUEUE and request.refuse is refuse_in_xml and _path_of_queue(scope) != ""
    )
    operation = None if is_misplaced else ACTIONS.get(name)
    if operation is None:
        raise SqsError("InvalidAction", f"The action {name[:100]} is not valid for this endpoint.")
    return operation


@dataclass(frozen=True, slots=True)
class _Reply:
    """
    The answer to a request.

    Attributes:
        id: the id of the request.
    """

    scope: AsgiScope
    send: Send
    id: str

    async def send_whole(
        self, status: int, media_type: str, content: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        """Send it in one piece."""
        headers = {
            "Content-Type": media_type,
            "Content-Length": str(len(content)),
            "x-amzn-RequestId": self.id,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **(more or {}),
        }
        start = {
            "type": "http.response.start",
            "status": status,
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()],
        }
        await delivery.send_whole(self.scope, self.send, start, content)

    async def send_error(self, error: Exception, refuse: Refuse) -> None:
        """Send an error."""
        refused = as_sqs_error(error)
        if refused.status >= _SERVER_FAULT:
            describe(error, may_repeat=False)  # logs unexpected errors
            _log.error("SQS: %d %s", refused.status, refused.code)
        media_type, content, more = refuse(refused, self.id)
        is_xml = refuse is refuse_in_xml
        if is_xml and refused.status == _NOT_FOUND and refused.code == "InvalidAction":
            content = b"<UnknownOperationException/>\n"
        await self.send_whole(refused.status, media_type, content, more)
