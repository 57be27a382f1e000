"""
Amazon SQS on the wire: its clients send to and receive from the queues of this library.
"""

from __future__ import annotations

from rsmq.web.sqs.application import Sqs

__all__ = ["Sqs"]
