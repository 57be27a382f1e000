"""
The place of the queues of a job: its options, and the passwords that they do not contain.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Decorator, options
from rsmq.transport.url import split_password, split_sentinel_password

if TYPE_CHECKING:
    from rsmq.spark.pipelines.queues import Queues

#: The environment variable that passes the password of a URL to the processes of Spark.
PASSWORD_VARIABLE = "RSMQ_PIPELINE_PASSWORD"  # noqa: S105 - a name
#: The same for the password of the Sentinels.
SENTINEL_PASSWORD_VARIABLE = "RSMQ_PIPELINE_SENTINEL_PASSWORD"  # noqa: S105 - a name

_PASSWORDS = (
    "password_env", "password_file", "sentinel_password_env", "sentinel_password_file",
)  # fmt: skip


_OF_PASSWORDS = """
--{prefix}password-env ENV  The environment variable, in every process, that has the password.
--{prefix}password-file FILE  The file, on every machine, that has the password.
--{prefix}sentinel-password-env ENV  The environment variable, in every process, that has the
    password of the Sentinels.
--{prefix}sentinel-password-file FILE  The file, on every machine, that has the password of the
    Sentinels.
"""
_OF_PLACES = """
--{prefix}url URL  The URL, as in redis://127.0.0.1:6379/0, without a password{default}
--{prefix}ns NAME  The namespace.
--{prefix}any-names  Allow queue names that the Node client refuses.
"""


def place_options(prefix: str | None = None, *, default: str | None = None) -> Decorator:
    """
    Return the options for the server and the namespace of queues.

    Args:
        prefix: ``from-`` or ``to-``; None leaves the URL and the namespace to the options for every
            command.
        default: the place if no URL is given; None requires one.
    """
    of_place = "" if prefix is None else _OF_PLACES.strip()
    text = f"{of_place}{_OF_PASSWORDS}".strip()
    suffix = ".  [required]" if default is None else f"; by default {default}."
    return options(text.format(prefix=prefix or "", default=suffix))


def own_queues(call: Call, options: dict[str, Any], required: Collection[str] = ()) -> Queues:
    """
    Return the queues at the place of the call, and check that their servers answer.

    Args:
        options: the options of the job; those of passwords are removed.
        required: the names of queues that must exist.
    """
    fields = {name: options.pop(name) for name in _PASSWORDS}
    fields |= {"ns": ",".join(call.namespaces), "strict_names": not call.any_names}
    if call.configured_url is not None:
        url, password = split_password(call.configured_url)
        fields["url"], sentinel_password = split_sentinel_password(url)
        # Not as options, because Spark shows options in its query plans.
        for prefix, secret, variable in (
            ("", password, PASSWORD_VARIABLE),
            ("sentinel_", sentinel_password, SENTINEL_PASSWORD_VARIABLE),
        ):
            given = fields[f"{prefix}password_env"] or fields[f"{prefix}password_file"]
            if secret is not None and not given:
                os.environ[variable] = secret
                fields[f"{prefix}password_env"] = variable
    queues = _reach(fields)
    queues.require(required)
    return queues


def other_queues(prefix: str, options: dict[str, Any], default: Queues | None = None) -> Queues:
    """
    Return the queues at the place of options with a prefix, and check that their servers answer.

    Args:
        prefix: ``from_`` or ``to_``.
        options: the options of the job; those of the place are removed.
        default: the place if the options have no URL.
    """
    fields = {name: options.pop(f"{prefix}{name}") for name in ("url", "ns", *_PASSWORDS)}
    fields["strict_names"] = not options.pop(f"{prefix}any_names")
    if default is not None and fields["url"] is None:
        given = {name: value for name, value in fields.items() if value is not None}
        fields = dataclasses.asdict(default) | given | {"strict_names": default.strict_names}
    return _reach(fields)


def _reach(fields: dict[str, Any]) -> Queues:
    from rsmq.spark.pipelines.queues import Queues  # noqa: PLC0415 - needs the extra

    queues = Queues(**{name: value for name, value in fields.items() if value is not None})
    queues.reach()
    return queues
