"""
The operations on queues: create, delete, list, purge, attributes, tags.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from rsmq.errors import InvalidFormat, MissingParameter, QueueNotFound
from rsmq.figures.reading import keys_of
from rsmq.operations.operation import Operation, Steps
from rsmq.operations.plain import encode_command, plain_commands
from rsmq.operations.queues import list_queues_in_steps
from rsmq.web.fields import Refused
from rsmq.web.sqs.calls import NOTHING, SqsAnswer, SqsCall, read_number, read_texts
from rsmq.web.sqs.errors import SqsError, invalid, invalid_value, missing, service_error
from rsmq.web.sqs.names import check_new_name, from_stored, to_stored
from rsmq.web.sqs.operations import store_queue
from rsmq.web.sqs.queue_attributes import (
    NEW_FIELDS,
    ChangedAttributes,
    check_names,
    differing_attribute,
)
from rsmq.web.sqs.queue_records import FIFO_DEFAULTS, QueueRecord
from rsmq.web.table import Scope
from rsmq.wire.fields import DEAD_LETTER_QUEUE, SQS
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.sqs_settings import decode_settings, encode_settings, has_fifo

_MAX_RESULTS, _MAX_TAGS = 1000, 50
_MAX_TAG_KEY, _MAX_TAG_VALUE = 128, 256
_QUEUES_PER_STEP = 100


def _check_policy(call: SqsCall, changed: ChangedAttributes) -> None:
    if changed.policy and changed.policy[0]:
        call.api.allow(Scope.SEND, changed.policy[0])  # it gets messages of the queue


def _with_policy(changed: ChangedAttributes, error: QueueNotFound) -> Exception:
    """Return the error of a queue that is missing: of the queue itself, or of its policy."""
    if changed.policy and error.value == changed.policy[0]:
        return invalid_value(
            "RedrivePolicy", "deadLetterTargetArn", "Dead letter target does not exist."
        )
    return error


async def create(call: SqsCall) -> SqsAnswer:
    """
    Create a queue with all attributes and tags, in one atomic step; return its URL.

    One that exists with the same attributes is as if it were created.
    """
    parameters = call.parameters
    given = parameters.get("Attributes") or {}
    fifo = isinstance(given, dict) and str(given.get("FifoQueue")).lower() == "true"
    name = parameters.get("QueueName")
    if not fifo:
        ChangedAttributes(given, "", call.state.site, creates=True)  # of a standard queue
    name = check_new_name(name, fifo=fifo)
    changed = ChangedAttributes(given, name, call.state.site, creates=True)
    _check_policy(call, changed)
    tags = _check_tags(parameters.get("tags") or parameters.get("Tags") or {})
    new, fields = to_stored(name), NEW_FIELDS | changed.fields
    stored = encode_settings((FIFO_DEFAULTS if fifo else {}) | changed.settings, tags)
    if stored != encode_settings({}, {}):
        fields[SQS] = stored
    try:
        is_created = await call.queues.run(
            store_queue(call.queues.namespace, new, fields, changed.policy, creates=True)
        )
    except QueueNotFound as error:
        raise _with_policy(changed, error) from None
    call.state.records.forget(name)
    if not is_created:
        await _check_same(call, name, changed, given)
    return SqsAnswer({"QueueUrl": call.url(name)})


async def _check_same(
    call: SqsCall, name: str, changed: ChangedAttributes, given: Mapping[str, Any]
) -> None:
    try:
        record = await call.state.records.find(name, fresh=True)
    except SqsError:
        raise _exists_otherwise("FifoQueue") from None
    shown = await call.state.attributes.read(record, list(given))
    differing = differing_attribute(changed, given, shown)
    if differing is not None:
        raise _exists_otherwise(differing)


def _exists_otherwise(attribute: str) -> SqsError:
    return SqsError(
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute "
        f"{attribute}",
    )


async def find_url(call: SqsCall) -> SqsAnswer:
    """Return the URL of a queue by its name."""
    name = call.parameters.get("QueueName")
    if not isinstance(name, str) or not name:
        raise missing("QueueName")
    call.api.allow(Scope.STATS, to_stored(name))
    record = await call.state.records.find(name, fresh=True)
    return SqsAnswer({"QueueUrl": call.url(record.name)})


async def delete(call: SqsCall) -> SqsAnswer:
    """Delete a queue with all its messages, in one atomic step."""
    call.state.records.forget(call.queue.name)
    await call.queues.delete_queue(call.queue.qname)
    return NOTHING


async def purge(call: SqsCall) -> SqsAnswer:
    """Remove all messages of a queue, in one atomic step."""
    await call.queues.purge_queue(call.queue.qname)
    return NOTHING


async def list_all(call: SqsCall) -> SqsAnswer:
    """Return the URLs of queues that the caller may see, in the order of their names."""
    prefix = call.parameters.get("QueueNamePrefix") or ""
    names = [name for name in await find_names(call, None) if name.startswith(str(prefix))]
    return _page(call, names, "QueueUrls")


async def list_sources(call: SqsCall) -> SqsAnswer:
    """Return the URLs of the queues that have a queue as their dead-letter queue."""
    names = await find_names(call, call.queue.qname)
    return _page(call, names, "queueUrls")


async def find_names(call: SqsCall, qname: str | None) -> list[str]:
    """Return the queues with a dead-letter queue, all for None, by their names in SQS."""
    found = await call.queues.run_steps(_read_settings_in_steps(call.queues.namespace))
    return sorted(
        from_stored(name, fifo=is_fifo) for name, (is_fifo, target) in found.items()
        if qname in {None, target} and _may_see(call, name)
    )  # fmt: skip


def _may_see(call: SqsCall, qname: str) -> bool:
    """Return whether SQS has a name for a queue, and the caller may see it."""
    try:
        call.queues.namespace.queue(qname)
        call.api.allow(Scope.STATS, qname)
    except (InvalidFormat, MissingParameter, Refused):
        return False
    return qname == to_stored(qname)


def _read_settings_in_steps(namespace: Namespace) -> Steps[dict[str, tuple[bool, str]]]:
    """Return by queue whether it is a FIFO queue, and its dead-letter queue."""
    found: dict[str, tuple[bool, str]] = {}
    names = yield from list_queues_in_steps(namespace)
    queues = keys_of(namespace, names)
    for at in range(0, len(queues), _QUEUES_PER_STEP):
        of_step = yield _read_settings(queues[at : at + _QUEUES_PER_STEP])
        found |= {name: value for name, value in of_step.items() if value is not None}
    return found


def _read_settings(queues: Sequence[QueueKeys]) -> Operation[dict[str, tuple[bool, str] | None]]:
    fields = "vt", SQS, DEAD_LETTER_QUEUE
    commands = [encode_command(("HMGET", keys.hash, *fields)) for keys in queues]
    reading: Operation[Any] = plain_commands(queues[0].hash, commands)
    reading.parse = lambda replies: {
        keys.name: vt and (has_fifo(decode_settings(stored)[0]), decode_name(to or b""))
        for keys, (vt, stored, to) in zip(queues, replies, strict=True)
    }
    return reading


def _page(call: SqsCall, names: list[str], field: str) -> SqsAnswer:
    number = read_number(call.parameters, "MaxResults", 1, _MAX_RESULTS)
    token = call.parameters.get("NextToken")
    if token:
        try:
            last = decode_name(base64.b64decode(str(token), validate=True))
        except (ValueError, binascii.Error):
            raise invalid("Invalid or expired next token.") from None
        names = [name for name in names if name > last]
    page = names[: number or _MAX_RESULTS]
    content: dict[str, Any] = {}
    if page:
        content[field] = [call.url(name) for name in page]
    if number is not None and len(page) < len(names):
        content["NextToken"] = base64.b64encode(encode_name(page[-1])).decode()
    return SqsAnswer(content)


async def read_attributes(call: SqsCall) -> SqsAnswer:
    """Return attributes of a queue."""
    names = check_names(read_texts(call.parameters, "AttributeNames"))
    if not names:
        return SqsAnswer({})
    found = await call.state.attributes.read(call.queue, names)
    return SqsAnswer({"Attributes": found} if found else {})


async def set_attributes(call: SqsCall) -> SqsAnswer:
    """Set attributes of a queue, all of them in one atomic step."""
    name, records = call.queue.name, call.state.records
    given = call.parameters.get("Attributes")
    if not given:
        raise missing("Attributes")
    changed = ChangedAttributes(given, name, call.state.site, creates=False)
    _check_policy(call, changed)

    def change(record: QueueRecord) -> dict[str, Any]:
        stored = encode_settings({**record.attributes, **changed.settings}, record.tags)
        is_other = stored != (record.stored or encode_settings({}, {}))
        return changed.fields | ({SQS: stored} if is_other else {})

    try:
        await records.change(name, change, changed.policy)
    except QueueNotFound as error:
        raise _with_policy(changed, error) from None
    return NOTHING


def _check_tags(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise invalid("Tags is not a map.")
    tags = {str(key): str(value) for key, value in given.items()}
    if len(tags) > _MAX_TAGS:
        raise invalid(f"A queue has at most {_MAX_TAGS} tags.")
    for key, value in tags.items():
        if not 1 <= len(key) <= _MAX_TAG_KEY or len(value) > _MAX_TAG_VALUE:
            raise invalid(
                f"A tag has a key of 1 to {_MAX_TAG_KEY} characters, and a value of at most "
                f"{_MAX_TAG_VALUE}."
            )
    return tags


async def list_tags(call: SqsCall) -> SqsAnswer:
    """Return the tags of a queue."""
    return SqsAnswer({"Tags": call.queue.tags} if call.queue.tags else {})


async def add_tags(call: SqsCall) -> SqsAnswer:
    """Set tags of a queue, in one atomic step."""
    new = _check_tags(call.parameters.get("Tags") or {})
    if not new:
        raise missing("Tags")

    def change(record: QueueRecord) -> dict[str, Any]:
        return {SQS: encode_settings(record.attributes, _check_tags({**record.tags, **new}))}

    await call.state.records.change(call.queue.name, change)
    return NOTHING


async def remove_tags(call: SqsCall) -> SqsAnswer:
    """Remove tags of a queue, in one atomic step."""
    keys = set(read_texts(call.parameters, "TagKeys"))
    if not keys:
        raise missing("TagKeys")

    def change(record: QueueRecord) -> dict[str, Any]:
        tags = {k: v for k, v in record.tags.items() if k not in keys}
        return {SQS: encode_settings(record.attributes, tags)}

    await call.state.records.change(call.queue.name, change)
    return NOTHING


async def refuse_permission(_: SqsCall) -> SqsAnswer:
    """Refuse the rights of AWS: those of callers are in the users file."""
    text = "Rights are in the users file of the server, and not in policies of queues."
    raise service_error("UnsupportedOperation", text)
