"""
Compression with zstd and zlib, and its end, which stops at the declared size.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from rsmq.codecs.interface import CannotDecode
from rsmq.errors import MissingExtra
from rsmq.errors.printable import format_count
from rsmq.wire.body_format import BodyStep

#: The largest body that is inflated or loaded by default, bytes.
MAX_BODY_BYTES = 64 * 1024 * 1024
#: The methods, with their levels.
LEVELS = {"zstd": 3, "zlib": 6}

_MAX_DIGITS = 12
_of_thread = threading.local()


def deflate(raw: bytes, method: str) -> bytes:
    """
    Return the compressed bytes.

    Raises:
        MissingExtra: the method is zstd, which is not installed.
    """
    return _COMPRESS[method](raw)


def inflate(step: BodyStep, packed: bytes, limit: int = MAX_BODY_BYTES) -> bytes:
    """
    Return the bytes of a compressed body.

    Args:
        step: how it was compressed, with the size of the result.
        packed: the compressed bytes.
        limit: the largest size, bytes.

    Raises:
        CannotDecode: the declared size is above the limit, or is not the size of the result, or the
            bytes are damaged.
        MissingExtra: it is compressed with zstd, which is not installed.
    """
    declared = step.parameters[0] if len(step.parameters) == 1 else ""
    if not (declared.isascii() and declared.isdigit() and len(declared) <= _MAX_DIGITS):
        raise CannotDecode("The declared size of the compressed body is damaged")
    size = int(declared)
    if size > limit:
        raise CannotDecode(
            f"The compressed body has {format_count(size, 'byte')}, and the limit is {limit:,}",
            "Receive it with a larger limit, as in Compressed(JSON, limit=...).",
        )
    inflated = _INFLATE[step.name](packed, size)
    if inflated is None or len(inflated) != size:
        raise CannotDecode("The compressed body is damaged, or does not have its declared size")
    return inflated


def load_zstandard() -> Any:
    """
    Return the module.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import zstandard  # noqa: PLC0415 - needs an extra
    except ImportError:
        raise MissingExtra("bodies", "Compression with zstd") from None
    return zstandard


def _of_this_thread(name: str, make: Callable[[], Any]) -> Any:
    """Return an object of zstandard, one for each thread: making it takes longer than its work."""
    try:
        return getattr(_of_thread, name)
    except AttributeError:
        made = make()
        setattr(_of_thread, name, made)
        return made


def _compress_zstd(raw: bytes) -> bytes:
    zstandard = load_zstandard()
    make = partial(zstandard.ZstdCompressor, level=LEVELS["zstd"])
    packed: bytes = _of_this_thread("compressor", make).compress(raw)
    return packed


def _inflate_zstd(packed: bytes, size: int) -> bytes | None:
    zstandard = load_zstandard()
    try:
        # The frame may declare a size of its own, for which memory would be reserved.
        declared = zstandard.get_frame_parameters(packed).content_size
        if declared not in {size, zstandard.CONTENTSIZE_UNKNOWN}:
            return None
        inflater = _of_this_thread("inflater", zstandard.ZstdDecompressor)
        inflated: bytes = inflater.decompress(packed, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    return inflated


def _compress_zlib(raw: bytes) -> bytes:
    return zlib.compress(raw, LEVELS["zlib"])


def _inflate_zlib(packed: bytes, size: int) -> bytes | None:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(packed, size + 1)
    except zlib.error:
        return None
    return inflated if inflater.eof and not inflater.unused_data else None


_COMPRESS = {"zstd": _compress_zstd, "zlib": _compress_zlib}
_INFLATE = {"zstd": _inflate_zstd, "zlib": _inflate_zlib}
