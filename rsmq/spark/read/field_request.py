"""
Requests for the fields of many messages, in the bytes that Redis reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rsmq.transport.packing import pack


def pack_fields(
    hash: bytes, ids: Sequence[bytes], suffixes: Sequence[bytes]
) -> list[bytes | memoryview]:
    """
    Return a packed HMGET of the fields of messages: for each id, those with the suffixes.

    If all ids have one length, which is usual, numpy fills a template of their rows: a command of
    thousands of fields is packed in a fifth of the time.

    Args:
        hash: the key of the hash.
        ids: the ids, at least one.
        suffixes: the ends of the names of the fields; an empty one is that of the body.
    """
    lengths = set(map(len, ids))
    length = lengths.pop()
    if lengths:
        return list(pack((b"HMGET", hash, *[id + suffix for id in ids for suffix in suffixes])))
    template, places = b"", []
    for suffix in suffixes:
        template += b"$%d\r\n" % (length + len(suffix))
        places.append(len(template))
        template += bytes(length) + suffix + b"\r\n"
    rows = np.empty((len(ids), len(template)), np.uint8)
    rows[:] = np.frombuffer(template, np.uint8)
    characters = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), length)
    for place in places:
        rows[:, place : place + length] = characters
    number = 2 + len(ids) * len(suffixes)
    return [
        b"*%d\r\n$5\r\nHMGET\r\n$%d\r\n%b\r\n" % (number, len(hash), hash),
        rows.reshape(-1).data,
    ]
