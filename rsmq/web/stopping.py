"""
The end of a server: waits end with an answer, so that no client sees an error.
"""

from __future__ import annotations

from rsmq.web.client import Client
from rsmq.web.tail import end_tails


async def end_waits(queues: Client) -> None:
    """
    End the waits of all receives, pops and jobs, and the tails, of a client that stays open.

    Nothing is cancelled, so no message is lost: each receive looks once more, and raises
    ClientClosed if there is no message. So do later ones that would wait.
    """
    end_tails(queues)
    await queues.watcher.close()
