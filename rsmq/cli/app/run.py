"""
The frame of a program: its standard streams, its errors, its exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from rsmq.cli.app.errors import describe_error
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.standard_streams import complete_streams


def run_program(name: str, call: Callable[[], int], *, as_json: Callable[[], bool]) -> int:
    """
    Run a program. An error becomes one line on the standard error.

    Args:
        name: the name of the program, which begins that line.
        call: the program; it returns an exit code.
        as_json: returns whether errors are written as JSON.

    Returns:
        The exit code.
    """
    try:
        complete_streams()
        code = call()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed the pipe
        _discard_output()
        return Exit.DONE
    except BaseException as error:  # noqa: BLE001 - raised again if it is not expected
        return _report_error(error, name, as_json=as_json())
    return code


def _report_error(error: BaseException, name: str, *, as_json: bool) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    report = describe_error(error)
    if report is None:
        raise error
    print(report.line(as_json=as_json, program=name), file=sys.stderr, flush=True)
    return report.exit


def _discard_output() -> None:
    """Discard the rest of the output, which Python would write at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
