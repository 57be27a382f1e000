"""
Errors as SQS answers them: a code of the query protocol, and a shape of the JSON protocol.
"""

from __future__ import annotations

from redis.exceptions import RedisError

from rsmq.errors import ClientClosed, QueueNotFound, RSMQError
from rsmq.web.fields import Refused

_PREFIX = "AWS.SimpleQueueService."
_OWN, _COMMON = "com.amazonaws.sqs#", "com.amazon.coral.service#"
#: The shapes whose names are not those of their codes.
_SHAPES = {
    f"{_PREFIX}NonExistentQueue": f"{_OWN}QueueDoesNotExist",
    "QueueAlreadyExists": f"{_OWN}QueueNameExists",
    "InvalidParameterValue": f"{_COMMON}InvalidParameterValueException",
    "MissingParameter": f"{_COMMON}MissingRequiredParameterException",
    "InvalidAction": f"{_COMMON}UnknownOperationException",
    "AccessDenied": f"{_COMMON}AccessDeniedException",
    "MissingAuthenticationToken": f"{_COMMON}MissingAuthenticationTokenException",
    "InvalidClientTokenId": f"{_COMMON}UnrecognizedClientException",
    "SignatureDoesNotMatch": f"{_COMMON}InvalidSignatureException",
    "SerializationException": f"{_COMMON}SerializationException",
    "ServiceUnavailable": f"{_COMMON}ServiceUnavailableException",
    "InternalFailure": f"{_COMMON}InternalFailure",
    "RequestThrottled": f"{_OWN}RequestThrottled",
}
_SERVER_FAULT = 500
_MAX_SHOWN = 1024
#: The refusals of the other parts of the server, by HTTP status.
_REFUSALS = dict.fromkeys((401, 403, 421), ("AccessDenied", 403))
_REFUSALS[429] = "RequestThrottled", 400


class SqsError(Exception):
    """
    An error as SQS answers it.

    Attributes:
        code: of the query protocol, and ``Error.Code`` of the SDKs.
        status: the HTTP status.
    """

    def __init__(self, code: str, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.code = code
        self.status = status

    @property
    def shape(self) -> str:
        """The name of the error in the JSON protocol."""
        return _SHAPES.get(self.code) or _OWN + self.code.removeprefix(_PREFIX)

    @property
    def fault(self) -> str:
        """The side that has caused it: the client or the server."""
        return "Receiver" if self.status >= _SERVER_FAULT else "Sender"

    def query_text(self) -> str:
        """Return the text in the query protocol."""
        if self.code == f"{_PREFIX}NonExistentQueue":
            return "The specified queue does not exist for this wsdl version."
        return str(self)


def service_error(code: str, text: str, status: int = 400) -> SqsError:
    """Return an error whose code has the prefix of the service."""
    return SqsError(_PREFIX + code, text, status)


def queue_not_found() -> SqsError:
    """Return the error of a queue that does not exist."""
    return service_error("NonExistentQueue", "The specified queue does not exist.")


def missing(name: str) -> SqsError:
    """Return the error of a parameter that is not there."""
    return SqsError("MissingParameter", f"The request must contain the parameter {name}.")


def invalid(text: str) -> SqsError:
    """Return the error of a parameter that has another value than it may have."""
    return SqsError("InvalidParameterValue", text)


def invalid_value(name: str, value: object, reason: str) -> SqsError:
    """Return the error of a parameter, with its value and the reason, a sentence."""
    shown = str(value)[:_MAX_SHOWN]
    return invalid(f"Value {shown} for parameter {name} is invalid. Reason: {reason}")


def as_sqs_error(error: Exception) -> SqsError:
    """Return what SQS would answer in place of an error of the library or of Redis."""
    if isinstance(error, SqsError):
        return error
    if isinstance(error, Refused):
        return _of_refused(error)
    if isinstance(error, ClientClosed | RedisError | OSError):
        return SqsError("ServiceUnavailable", "Redis can't be reached, or refuses the call.", 503)
    if isinstance(error, RSMQError):
        return queue_not_found() if isinstance(error, QueueNotFound) else invalid(str(error))
    return SqsError("InternalFailure", "The request has failed. The log has the cause.", 500)


def _of_refused(error: Refused) -> SqsError:
    text = str(error) if error.hint is None else f"{error}. {error.hint}"
    if error.status >= _SERVER_FAULT:
        return SqsError("ServiceUnavailable", text, 503)
    code, status = _REFUSALS.get(error.status, ("InvalidParameterValue", 400))
    return SqsError(code, text, status)
