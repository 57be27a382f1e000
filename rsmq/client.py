"""
The synchronous client, ``RSMQ``.
"""

from __future__ import annotations

from rsmq._sync.client import RSMQ

__all__ = ["RSMQ"]
