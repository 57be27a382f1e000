"""
``ObjectStore``: bodies in an object store, with the package obstore.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote_to_bytes

from rsmq.errors import InvalidFormat, MissingExtra, show

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket


class ObjectStore:
    """
    A store of bodies in S3, Google Cloud Storage, Azure, a local folder, or memory.

    An object has the path ``PREFIX/PLACE/NAME``: PLACE is the namespace and the name of the queue,
    with ``=XX`` in place of characters other than ``A-Z a-z 0-9 . _ - ~``. It can be pickled if the
    store of obstore can be.
    """

    def __init__(self, store: Bucket, *, prefix: str = "rsmq-bodies") -> None:
        """
        Use a store of ``obstore.store``.

        Args:
            store: an S3Store, GCSStore, AzureStore, LocalStore or MemoryStore. Its options decide
                how long a call waits: by default obstore tries again for three minutes.
            prefix: the first part of all paths, names of ``A-Z a-z 0-9 _ -`` with slashes between
                them. All programs of a namespace need the same one.

        Raises:
            InvalidFormat: store is not a store of obstore, or prefix has another form.
            MissingExtra: the extra ``stores`` is not installed.
        """
        try:
            import obstore  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("stores", "ObjectStore") from error
        if not type(store).__module__.startswith("obstore"):
            raise InvalidFormat(
                "store", value=show(store), hint="Pass a store of obstore.store, as an S3Store."
            )
        parts = prefix.split("/") if isinstance(prefix, str) else [""]
        if not all(part and part.replace("-", "_").replace("_", "a").isalnum() for part in parts):
            raise InvalidFormat(
                "prefix", value=show(prefix), hint="Use A-Z a-z 0-9 _ - with slashes between them."
            )
        self._obstore: Any = obstore
        self._store: Any = store
        self._prefix = prefix

    def write(self, place: bytes, name: str, body: bytes) -> None:
        """See ``BodyStore``."""
        self._obstore.put(self._store, self._path(place, name), body)

    def read(self, place: bytes, name: str, size: int) -> bytes:
        """See ``BodyStore``."""
        found = self._obstore.get(self._store, self._path(place, name))
        return bytes(found.bytes()) if found.meta["size"] == size else b""

    def delete(self, place: bytes, name: str) -> None:
        """See ``BodyStore``."""
        try:
            self._obstore.delete(self._store, self._path(place, name))
        except FileNotFoundError:
            return

    def list(self, namespace: bytes) -> Iterator[tuple[bytes, str]]:
        """See ``BodyStore``."""
        for page in self._obstore.list(self._store, self._prefix):
            for each in page:
                *parts, place, name = each["path"].split("/")
                found = unquote_to_bytes(place.replace("=", "%"))
                if "/".join(parts) == self._prefix and found.startswith(namespace + b":"):
                    yield found, name

    def _path(self, place: bytes, name: str) -> str:
        return f"{self._prefix}/{quote(place, safe='').replace('%', '=')}/{name}"

    def __repr__(self) -> str:
        return f"ObjectStore({type(self._store).__name__}, prefix={self._prefix!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self._store, "prefix": self._prefix}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["store"], prefix=state["prefix"])  # type: ignore[misc]
