"""
The calls that one ``send_messages`` sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from rsmq.tasks.signature import Signature
from rsmq.vocabulary.sends import BATCH, TASK

#: The options that may differ within a ``send_messages``.
_OWN_OPTIONS = {each.name: each.name_in(BATCH) for each in TASK.options.values() if each.of_message}

#: The queue of a ``send_messages``, the places of the calls, the bodies and the options.
Group: TypeAlias = tuple[str, list[int], list[dict[str, Any]], dict[str, Any]]


def make_groups(signatures: list[Signature[Any]]) -> Iterator[Group]:
    """Return for each ``send_messages`` the queue, the places of the calls, bodies and options."""
    groups: dict[Any, list[int]] = {}
    for place, each in enumerate(signatures):
        shared = {key: value for key, value in each.send_options.items() if key not in _OWN_OPTIONS}
        groups.setdefault((each.queue, tuple(sorted(shared.items()))), []).append(place)
    for (queue, shared), places in groups.items():
        chosen = [signatures[place] for place in places]
        options = dict(shared)
        for name, argument in _OWN_OPTIONS.items():
            values = [each.options.send.get(name) for each in chosen]
            if any(value is not None for value in values):
                options[argument] = values
        yield queue, places, [each.body for each in chosen], options
