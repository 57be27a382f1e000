"""
The options of ``format("rsmq")`` that say where the queues are.

Spark may send them to other processes, so they never contain a password, only its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsmq.codecs.readable import ReadableBodies, import_codec
from rsmq.errors import InvalidOption, RSMQError, show
from rsmq.spark.option_reader import OptionReader
from rsmq.transport.url import has_password, is_group_url, mask_secrets, with_options
from rsmq.wire.keys import DEFAULT_NS, Namespace

CONNECTION_OPTIONS = (
    "url", "host", "port", "db", "username", "ssl", "passwordEnv", "passwordFile",
    "sentinelPasswordEnv", "sentinelPasswordFile", "ns", "strictNames", "retryDeadline", "codec",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """
    The Redis server and the namespaces of queues.

    Attributes:
        url: the URL of the server, without a password; its query has redis-py's options.
        namespaces: the namespaces of the queues; a write has one.
        password_env: the environment variable that holds the password, in every process.
        password_file: the file that holds the password, on every machine.
        sentinel_password_env: the environment variable that holds the password of the Sentinels.
        sentinel_password_file: the file that holds the password of the Sentinels.
        retry_deadline: how long commands are retried while Redis is away, seconds.
        codec: the name of the codec that compresses and encrypts bodies, as in ``app:codec``; each
            process imports it. None leaves bodies as they are stored.
    """

    url: str
    namespaces: tuple[Namespace, ...]
    password_env: str | None
    password_file: str | None
    sentinel_password_env: str | None
    sentinel_password_file: str | None
    retry_deadline: float
    codec: str | None = None

    @property
    def bodies(self) -> ReadableBodies | None:
        """The codec of bodies as bytes; None without one."""
        return None if self.codec is None else ReadableBodies(import_codec(self.codec))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the namespaces."""
        return tuple(namespace.name for namespace in self.namespaces)


def parse_connection_options(options: Mapping[str, str]) -> ConnectionOptions:
    """
    Return the connection options of a job that has no other options.

    Raises:
        InvalidOption: an option is unknown, has an invalid value, or contradicts another one.
    """
    return read_connection_options(OptionReader(options, CONNECTION_OPTIONS))


def read_connection_options(reader: OptionReader) -> ConnectionOptions:
    """
    Return the connection options among all options of a read or a write.

    Raises:
        InvalidOption: an option has an invalid value, or contradicts another one.
    """
    url = reader.read_text("url")
    url_parts = [name for name in ("host", "port", "db", "ssl") if reader.read_text(name)]
    if url is not None and url_parts:
        raise InvalidOption("url", f"says where Redis is; leave out {', '.join(url_parts)}.")
    if url is None:
        scheme = "rediss" if reader.read_flag("ssl", default=False) else "redis"
        host = reader.read_text("host") or "127.0.0.1"
        port = reader.read_integer("port", 6379, 1, 65535)
        db = reader.read_integer("db", 0, 0, 1_000_000)
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{db}"
    _check_url(url)
    query = reader.read_redis_options()
    if reader.read_text("username"):
        query["username"] = reader.read_text("username") or ""
    _check_password_options(reader, url)
    return ConnectionOptions(
        url=with_options(url, query),
        namespaces=_read_namespaces(reader),
        password_env=reader.read_text("passwordEnv"),
        password_file=reader.read_text("passwordFile"),
        sentinel_password_env=reader.read_text("sentinelPasswordEnv"),
        sentinel_password_file=reader.read_text("sentinelPasswordFile"),
        retry_deadline=reader.read_seconds("retryDeadline", 60, 0, 86_400),
        codec=_read_codec(reader),
    )


def _read_codec(reader: OptionReader) -> str | None:
    name = reader.read_text("codec")
    if name is not None:
        try:
            import_codec(name)
        except RSMQError as error:
            raise InvalidOption("codec", str(error)) from None
    return name


def _read_namespaces(reader: OptionReader) -> tuple[Namespace, ...]:
    names = dict.fromkeys(reader.read_columns("ns") or (DEFAULT_NS,))
    strict_names = reader.read_flag("strictNames", default=True)
    try:
        return tuple(Namespace(name, strict_names) for name in names)
    except RSMQError as error:
        raise InvalidOption("ns", str(error)) from None


def _check_password_options(reader: OptionReader, url: str) -> None:
    for env, file in (
        ("passwordEnv", "passwordFile"),
        ("sentinelPasswordEnv", "sentinelPasswordFile"),
    ):
        if reader.read_text(env) and reader.read_text(file):
            raise InvalidOption(env, f"give it or {file}, not both.")
    for name in ("sentinelPasswordEnv", "sentinelPasswordFile"):
        if reader.read_text(name) and "+sentinel://" not in url:
            raise InvalidOption(
                name, "is for a url that begins with redis+sentinel://. Remove the option."
            )


def _check_url(url: str) -> None:
    if any("://" in word for word in url.split()[1:]):
        raise InvalidOption("url", "is one URL, and this has several.")
    masked = mask_secrets(url)
    if not url.startswith(("redis://", "rediss://", "unix://")) and not is_group_url(url):
        raise InvalidOption(
            "url",
            "begins with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://; got "
            f"{show(masked)}. memory:// is one process's own: Spark's processes could not share "
            "it.",
            value=masked,
        )
    is_secret = has_password(url)
    if is_secret is None:
        rule = f"is not a URL such as redis://127.0.0.1:6379/0; got {show(masked)}."
        raise InvalidOption("url", rule, value=masked)
    if is_secret:
        raise InvalidOption(
            "url",
            "has a password, which would be stored in plans and checkpoints. Remove it, and set "
            "passwordEnv to the name of an environment variable, or passwordFile to the path of "
            "a file, that every process of the job can read. For that of Sentinels it is "
            "sentinelPasswordEnv or sentinelPasswordFile.",
        )
