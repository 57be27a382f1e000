"""
The names of the queues that are levels of another queue.

A level is an ordinary queue: ``mail_critical`` is the level ``critical`` of ``mail``. Rqueue gives
the queues of its priorities the same names. A level has no ``_`` in its name, so two levels never
have the same queue.
"""

from __future__ import annotations

import re

from rsmq.errors import InvalidFormat, MissingParameter, show

#: The name of a level that would be taken for the queue itself.
DEFAULT_LEVEL = "default"
MAX_NAME_CHARACTERS = 160
_LEVEL = re.compile(r"[a-zA-Z0-9-]{1,40}")


def level_queue(queue: str, level: str) -> str:
    """
    Return the name of the queue that is a level of another queue: ``mail_critical``.

    Send to it to give a message that level. It is an ordinary queue, so every client can, and it
    must exist: a listener with ``levels=`` and ``create=True`` creates it. It makes no call to
    Redis.

    Args:
        queue: the name of the queue that has the level.
        level: 1 to 40 characters of ``A-Z a-z 0-9 -``, except ``default``: messages of the default
            level are sent to the queue itself.

    Raises:
        MissingParameter: a name is empty.
        InvalidFormat: the level's name is invalid, or the name of its queue has more than 160
            characters.
    """
    if not queue:
        raise MissingParameter("queue")
    if not isinstance(level, str) or not _LEVEL.fullmatch(level) or level == DEFAULT_LEVEL:
        raise InvalidFormat(
            "level",
            value=show(level),
            hint="A level has 1 to 40 characters of A-Z a-z 0-9 -, and is not 'default': the "
            "default level is the queue itself.",
        )
    name = f"{queue}_{level}"
    if len(name) > MAX_NAME_CHARACTERS:
        raise InvalidFormat(
            "level",
            value=level,
            hint=f"Its queue {name!r} would have a name of more than {MAX_NAME_CHARACTERS} "
            "characters. Shorten the name of the level or of the queue.",
        )
    return name
