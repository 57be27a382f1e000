"""
A progress bar; a module of its own because rich takes time to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _RateColumn(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        done = f"{task.completed:,.0f}"
        if task.total is not None:
            done += f" of {task.total:,.0f}"
        speed = task.finished_speed or task.speed
        return Text(f"{done} {self._unit}" + (f", {speed:,.0f}/s" if speed else ""))


@contextmanager
def show_bar(label: str, total: float | None, unit: str) -> Iterator[Callable[[float], None]]:
    """
    Show a progress bar on the standard error.

    Args:
        label: the name of the work.
        total: the amount of work, in units; None if unknown.

    Yields:
        A function that adds a number of units that are done.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _RateColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)

        def advance(number: float) -> None:
            progress.advance(task, number)

        yield advance
