"""
The client that the server calls.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from rsmq.aio import AsyncRSMQ

Client: TypeAlias = AsyncRSMQ[Any]
