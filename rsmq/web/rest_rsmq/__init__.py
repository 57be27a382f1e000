"""
The eight routes of rest-rsmq, with its statuses, content types and bodies.
"""

from __future__ import annotations

from rsmq.web.rest_rsmq.application import RestRsmq

__all__ = ["RestRsmq"]
