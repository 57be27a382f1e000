"""
The commands of web-user.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Group
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


def _rights(function: Any) -> Any:
    role = click.option(
        "--role", type=click.Choice(["viewer", "operator", "admin"]), default="viewer",
        show_default=True, help="What the caller may do.",
    )  # fmt: skip
    queues = click.option(
        "--queue", "queues", multiple=True, metavar="PATTERN",
        help="Only with queues that match this pattern; may be repeated.",
    )  # fmt: skip
    return role(queues(function))


@web_user.subcommand("add", "rsmq web-user add anna --role viewer --queue 'orders*'")
@click.argument("name")
@_rights
@click.pass_obj
def add(call: Call, name: str, role: str, queues: tuple[str, ...]) -> None:
    """
    Write the entry of a user, with a password that is asked for.

    The password is read from the terminal, or else from the first line of the standard input. Only
    its hash (scrypt) is written.
    """
    from rsmq.web.access.secrets import hash_password  # noqa: PLC0415 - needs an extra

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise Failed("The password is empty")
    _write(call, "users", name, {"password": hash_password(password)}, role, queues)


@web_user.subcommand("token", "rsmq web-user token shop --role operator --queue orders")
@click.argument("name")
@_rights
@click.pass_obj
def token(call: Call, name: str, role: str, queues: tuple[str, ...]) -> None:
    """
    Make a token, and write its entry. The token itself is shown once, on the standard error.
    """
    from rsmq.web.access.secrets import hash_token, make_token  # noqa: PLC0415 - as above

    made = make_token()
    _write(call, "tokens", name, {"sha256": hash_token(made)}, role, queues, token=made)
    call.out.note(f"The token, which is shown once: {made}")


def _write(  # noqa: PLR0917 - the parts of an entry
    call: Call,
    section: str,
    name: str,
    secret: dict[str, str],
    role: str,
    queues: tuple[str, ...],
    **shown: str,
) -> None:
    import json  # noqa: PLC0415 - only here

    # A string of JSON without characters beyond ASCII is one of TOML.
    lines = [f"[{section}.{json.dumps(name)}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in {**secret, "role": role}.items()]
    if queues:
        lines.append(f"queues = {json.dumps(queues)}")
    call.out.result(
        {"section": section, "name": name, "role": role, **secret, **shown}, [*lines, ""]
    )
