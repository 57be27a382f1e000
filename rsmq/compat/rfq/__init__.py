"""
rfq's API on RSMQ queues, for programs that migrate from rfq.

A program runs unchanged if it imports ``Queue`` and ``Task`` from here::

    from rsmq.compat.rfq import Queue  # was: from rfq.rfq import Queue

Names, parameters and results are those of rfq 1.4.0. A topic is a queue, and a message is a JSON
object of texts, which clients in other languages can read. compat/MIGRATING.md lists the
differences in behaviour. New programs should use ``rsmq.RSMQ``.
"""

from rsmq.compat.rfq.queue import Queue
from rsmq.compat.rfq.task import Task

__all__ = ["Queue", "Task"]
