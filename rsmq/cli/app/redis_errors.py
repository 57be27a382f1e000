"""
Errors of redis-py in the programs: their exit codes and texts.
"""

from __future__ import annotations

from redis import exceptions as redis_errors

from rsmq.cli.app.exit_codes import Exit
from rsmq.transport.failure_texts import (
    has_too_many_clients,
    is_unauthenticated,
    remove_script_location,
)
from rsmq.transport.retry import code_of


def describe_redis_error(error: BaseException) -> tuple[Exit, str, str, str | None] | None:
    """Return the parts of the report of an error of redis-py; None for other errors."""
    if not isinstance(error, redis_errors.RedisError):
        return None
    hint = " ".join(getattr(error, "__notes__", ())) or None
    text = f"Redis: {remove_script_location(str(error))}"
    # redis-py derives some errors that Redis has answered from its ConnectionError.
    if isinstance(error, redis_errors.AuthenticationError | redis_errors.AuthorizationError):
        if is_unauthenticated(error):
            text = "Redis: a password is needed"
        hint = "Pass a URL with the user and the password: by --url, RSMQ_URL or a profile."
        return (Exit.REFUSED, "AUTH", text, hint)
    if isinstance(error, redis_errors.BusyLoadingError | redis_errors.ResponseError):
        code = code_of(error)
        return (Exit.REFUSED, code if code.isupper() else "ERR", text, hint)
    if has_too_many_clients(error):
        return (Exit.REFUSED, "MAXCLIENTS", text, hint)
    if isinstance(error, redis_errors.ConnectionError | redis_errors.TimeoutError):
        hint = "Another URL is passed by --url, RSMQ_URL or a profile."
        return (Exit.UNREACHABLE, "unreachable", text, hint)
    return (Exit.REFUSED, "redis", text, hint)
