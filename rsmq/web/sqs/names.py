"""
Names of queues: as SQS has them, in URLs and ARNs, and as this library has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from rsmq.web.sqs.errors import invalid, invalid_value, missing
from rsmq.wire.sqs_settings import FIFO_ENDING

#: The end of the name of a FIFO queue in SQS. Here it is another one: no name has a dot.
FIFO_SUFFIX = ".fifo"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MAX_NAME = 80


@dataclass(frozen=True, slots=True)
class SqsSite:
    """
    The common parts of the names of queues.

    Attributes:
        region: the region in ARNs.
        account: the account in ARNs and URLs, digits.
    """

    region: str = "us-east-1"
    account: str = "000000000000"

    def arn(self, name: str) -> str:
        """Return the ARN of a queue."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def url(self, base: str, name: str) -> str:
        """Return the URL of a queue below an address without a slash at its end."""
        return f"{base}/{self.account}/{quote(name, safe='', errors='surrogateescape')}"

    def name_of_arn(self, parameter: str, arn: Any) -> str:
        """
        Return the name of a queue in an ARN.

        Raises:
            SqsError: it is not an ARN of a queue.
        """
        parts = arn.split(":") if isinstance(arn, str) else []
        if parts[:1] != ["arn"] or parts[2:3] != ["sqs"] or len(parts) != _ARN_PARTS:
            raise invalid_value(parameter, arn, "It is not the ARN of a queue.")
        name: str = parts[-1]
        return name


_ARN_PARTS = 6


def name_of_url(url: Any) -> str:
    """
    Return the name of a queue in its URL, which may have any host, or be the name alone.

    Raises:
        SqsError: it is missing or not a text.
    """
    if not isinstance(url, str) or not url:
        raise missing("QueueUrl")
    last = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return unquote(last, errors="surrogateescape")


def is_fifo(name: str) -> bool:
    """Return whether a name of SQS is one of a FIFO queue."""
    return name.endswith(FIFO_SUFFIX)


def to_stored(name: str) -> str:
    """Return the name that a queue of SQS has in this library."""
    return name.removesuffix(FIFO_SUFFIX) + FIFO_ENDING if is_fifo(name) else name


def from_stored(qname: str, *, fifo: bool) -> str:
    """Return the name of SQS of a queue of this library; ``fifo``: whether it is a FIFO queue."""
    return qname.removesuffix(FIFO_ENDING) + FIFO_SUFFIX if fifo else qname


def check_new_name(name: Any, *, fifo: bool) -> str:
    """
    Check the name of a queue to create, and return it.

    Raises:
        SqsError: it is missing, or not a name of a FIFO queue, or of a standard queue.
    """
    if not isinstance(name, str) or not name:
        raise missing("QueueName")
    is_valid = _NAME.fullmatch(name.removesuffix(FIFO_SUFFIX)) and len(name) <= _MAX_NAME
    if not is_valid or fifo != is_fifo(name):
        raise invalid(
            "The name of a queue can only include alphanumeric characters, hyphens, or "
            "underscores, 1 to 80 in length; that of a FIFO queue must end with .fifo suffix."
        )
    return name
