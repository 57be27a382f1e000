"""
Whether the server answers, and the client for calls that may take long on one that does.
"""

from __future__ import annotations

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.operations.plain import plain_command
from rsmq.web.client import Client
from rsmq.web.problems import unavailable

#: Seconds to wait for the reply of a long call.
_REPLY_SECONDS = 60.0


async def ping(queues: Client) -> None:
    """
    Return when the server of the queues has answered.

    Raises:
        RedisError, RSMQError, OSError: it has not.
    """
    await queues.run(plain_command("PING", key=queues.namespace.queues))


async def client_for_long_call(queues: Client) -> Client:
    """
    Return a client that waits long for replies, after the server has answered.

    A Redis that runs a long script looks like one that hangs. So a long call first asks for a sign
    of life, within the time of other calls.

    Raises:
        Refused: the server does not answer.
    """
    try:
        await ping(queues)
    except ResponseError:
        pass  # it answers
    except (RedisError, RSMQError, OSError):
        raise unavailable() from None
    return queues.with_reply_timeout(_REPLY_SECONDS)
