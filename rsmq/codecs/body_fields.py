"""
Bodies in JSON of this library: the program, HTTP, exports and stored schedules.
"""

from __future__ import annotations

import base64


def body_fields(raw: bytes) -> dict[str, str]:
    """Return the field of a body: ``body`` if it is UTF-8, else ``body_base64``."""
    try:
        return {"body": raw.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(raw).decode()}
