"""
A progress bar; a module of its own because rich takes time to import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
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
def bar(what: str, total: float | None, unit: str) -> Iterator[Callable[[float], None]]:
    """A bar on the standard error; a function that is told how many more are done."""
    columns = TextColumn("{task.description}"), BarColumn(), _Rate(unit), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)

        def advance(number: float) -> None:
            progress.advance(task, number)

        yield advance
