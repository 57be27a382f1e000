"""
An interpreter for the Python blocks of a page, as if a user pasted one after another.

It reads a JSON object ``{"name": ..., "code": ...}`` on each line of its standard input, and writes
one with the printed lines, the whole output, and a traceback or null.
"""

from __future__ import annotations

import builtins
import gc
import io
import json
import os
import sys
import traceback
import warnings


def main() -> None:
    with os.fdopen(os.dup(1), "w") as answers:
        run_blocks(answers)


def run_blocks(answers) -> None:
    # Some packages import eventlet if it is installed, and pages run with warnings as errors.
    warnings.filterwarnings("ignore", r"\s*Eventlet is deprecated")
    names = {"__name__": "__main__"}
    prints: list[tuple[int, str]] = []

    def print_and_record(*values, file=None, **options):
        if file is None:
            text = io.StringIO()
            builtins.print(*values, file=text, **options)
            prints.append((sys._getframe(1).f_lineno, text.getvalue()))
        builtins.print(*values, file=file, **options)

    names["print"] = print_and_record
    for line in sys.stdin:
        block = json.loads(line)
        sys.stdout = output = io.StringIO()
        prints.clear()
        error = None
        try:
            exec(compile(block["code"], block["name"], "exec", dont_inherit=True), names)
        except BaseException:  # noqa: BLE001 - the test reports it
            error = traceback.format_exc()
        answer = {"prints": prints, "output": output.getvalue(), "error": error}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # As at the end of a program: clients are freed, and close their connections.
    names.clear()
    gc.collect()


if __name__ == "__main__":
    main()
