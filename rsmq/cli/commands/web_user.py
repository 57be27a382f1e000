"""
The commands of web-user.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Group, options
from rsmq.cli.app.errors import Failed

_HELP = """
Make users and tokens for rsmq web.

Each command writes an entry of a users file, which may be appended to it. Only the owner of the
file may read it: chmod 600 users.toml.
"""

web_user = Group(
    "web-user",
    help=_HELP,
    examples=[
        "rsmq web-user add anna --role viewer >>users.toml",
        "rsmq web-user token shop --role operator >>users.toml",
    ],
)


#: Those of rsmq.web.table, which needs an extra.
SCOPES = (
    "stats", "peek", "send", "receive", "manage", "destroy", "repair", "metrics", "audit",
)  # fmt: skip


_rights = options(
    """
    --role [viewer|operator|admin]  What the caller may do; viewer by default.
    --scope, scopes SCOPE...  The rights of the caller, instead of a role; may be repeated.
    --queue, queues PATTERN...  Only with queues that match this pattern; may be repeated.
    --namespace, namespaces PATTERN...  Only in namespaces that match this pattern; may be repeated.
        Without it, only in the first one of the server.
    """,
    scopes={"type": click.Choice(SCOPES), "metavar": None},
)


@web_user.subcommand("add NAME", "rsmq web-user add anna --role viewer --queue 'orders*'")
@_rights
def add(call: Call, /, name: str, **rights: Any) -> None:
    """
    Write the entry of a user, with a password that is asked for.

    The password is read from the terminal, or else from the first line of the standard input. Only
    its hash (scrypt) is written.
    """
    from rsmq.web.access.secrets import hash_password  # noqa: PLC0415 - needs an extra

    if ":" in name:
        raise Failed("The name of a user has no colon", hint="HTTP ends a user's name there.")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Failed("The password is empty")
    chosen = _rights_of(**rights)
    _write(call, "users", name, {"password": hash_password(password)}, chosen)


@web_user.subcommand(
    "token NAME",
    "rsmq web-user token shop --role operator --queue orders",
    "rsmq web-user token sensor --scope send --queue 'readings*'",
    "rsmq web-user token billing --sqs --role operator",
)
@options("--sqs  Make an access key for clients of Amazon SQS instead.")
@_rights
def token(call: Call, /, name: str, *, sqs: bool, **rights: Any) -> None:
    """
    Make a token, and write its entry. The token itself is shown once, on the standard error.

    With --sqs it is an access key: its entry has the secret, which a signature needs.
    """
    from rsmq.web.access.secrets import hash_token, make_access_key, make_token  # noqa: PLC0415 - as above

    chosen = _rights_of(**rights)
    if sqs:
        id, secret = make_access_key()
        _write(call, "access_keys", name, {"id": id, "secret": secret}, chosen)
        return
    made = make_token()
    _write(call, "tokens", name, {"sha256": hash_token(made)}, chosen, token=made)
    call.out.note(f"The token, which is shown once: {made}")


@web_user.subcommand("log-out NAME", "rsmq web-user log-out anna --users users.toml")
@options(
    """
    --users FILE  The users file of the servers.  [required]
    """,
    users={"type": click.Path(path_type=Path)},
)
def log_out(call: Call, name: str, users: Path) -> None:
    """
    End all sessions of a user, or of the tokens with this name, in all browsers.

    The running servers of the namespace notice it within a second; those of --read-only too. The
    user can log in again: to lock a user out, remove the entry from the file.
    """
    from rsmq.web.access.ended_sessions import end_sessions  # noqa: PLC0415 - needs an extra
    from rsmq.web.access.sessions import owners_of  # noqa: PLC0415 - as above
    from rsmq.web.access.users import read_users  # noqa: PLC0415 - as above

    owners = owners_of(read_users(users), name)
    if not owners:
        raise Failed(f"{name!r} has no password and no token in {users}")
    with call.open() as rsmq:
        rsmq.run(end_sessions(rsmq.namespace, owners))
    call.out.result({"name": name, "logged_out": True}, [f"{name} is logged out"])


def _rights_of(
    role: str | None,
    scopes: tuple[str, ...],
    queues: tuple[str, ...],
    namespaces: tuple[str, ...],
) -> dict[str, Any]:
    if role and scopes:
        raise Failed("Pass one of --role and --scope")
    rights: dict[str, Any] = {"scopes": scopes} if scopes else {"role": role or "viewer"}
    patterns = {"queues": queues, "namespaces": namespaces}
    return rights | {name: value for name, value in patterns.items() if value}


def _write(
    call: Call,
    section: str,
    name: str,
    secret: dict[str, str],
    rights: dict[str, Any],
    **shown: str,
) -> None:
    import json  # noqa: PLC0415 - only here

    # A string of JSON without characters beyond ASCII is one of TOML.
    lines = [f"[{section}.{json.dumps(name)}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in {**secret, **rights}.items()]
    call.out.result({"section": section, "name": name, **rights, **secret, **shown}, [*lines, ""])


_OF_REDIS = {"url", "ns", "profile", "any_names", "realtime"}


def _hide_options_of_redis() -> None:
    for each in (web_user, add, token):
        for option in each.params:
            if isinstance(option, click.Option) and option.name in _OF_REDIS:
                option.hidden = True


_hide_options_of_redis()  # they are accepted, and have no meaning here
