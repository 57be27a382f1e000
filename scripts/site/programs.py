"""Pages of the programs and of the metrics, from the help of commands and from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import click

import rsmq.metrics
from rsmq.cli.app.command_table import SECTIONS
from rsmq.cli.app.program import root
from rsmq.metrics.tally import Series

_METRICS = """# Metrics

Workers and `rsmq exporter` serve these to Prometheus; [workers](../workers.md#prometheus) says how.
[`BridgeMetrics`](prometheus.md#bridgemetrics) has those of bridges.

| metric | kind | labels | |
|---|---|---|---|"""
_COMMON = re.compile(r"^Options for every command:\n(?:  .*\n)+\n?", re.MULTILINE)


def write_commands() -> str:
    """Return the page of all commands, with the options of all of them once."""
    context = click.Context(root, info_name="rsmq", **root.context_settings)
    parts = ["# Commands and options\n", _show(root.get_help(context))]
    for title, section in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in section:
            parts += _describe(root, name, context)
    return "\n".join(parts)


def _describe(group: click.Group, name: str, above: click.Context) -> Iterator[str]:
    """Return the help of a command of a group, and of the commands below it."""
    command = group.get_command(above, name)
    if command is None:
        raise LookupError(f"rsmq {name} can't be imported. Install the extras of dev.")
    context = click.Context(command, above, name, **command.context_settings)
    yield f"### {context.command_path}\n"
    yield _show(_COMMON.sub("", command.get_help(context) + "\n").rstrip("\n"))
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _describe(command, below, context)


def _show(text: str) -> str:
    return f"```text\n{text}\n```\n"


def find_metrics() -> list[Series]:
    """Return all metrics, by their names."""
    found: dict[str, Series] = {}
    for each in iter_modules(rsmq.metrics.__path__, "rsmq.metrics."):
        for value in vars(import_module(each.name)).values():
            values = value.values() if isinstance(value, dict) else [value]
            found |= {one.name: one for one in values if isinstance(one, Series)}
    return [found[name] for name in sorted(found)]


def write_metrics() -> str:
    """Return the page of all metrics."""
    rows = [
        f"| `{each.name}{'_total' * (each.kind == 'counter')}` | {each.kind}"
        f" | {', '.join(f'`{label}`' for label in each.labels)} | {each.text} |"
        for each in find_metrics()
    ]
    return "\n".join([_METRICS, *rows, ""])
