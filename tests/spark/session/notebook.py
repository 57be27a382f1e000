"""
Runs the code of a notebook as Jupyter does, and compares the outputs with those in its file.

Run as a program: ``python -m tests.spark.session.notebook FILE URL``.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

_URL = "redis://127.0.0.1:6379/0"


def _text_of(output):
    found = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
    return "".join(found).rstrip("\n")


def run(path, url):
    """Run all cells, in one namespace; the value of a last expression is an output."""
    names = {"__name__": "__main__"}
    for cell in json.loads(Path(path).read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = ast.parse("".join(cell["source"]).replace(_URL, url))
        last = code.body.pop() if isinstance(code.body[-1], ast.Expr) else None
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, path, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), path, "eval"), names)
                if value is not None:
                    print(repr(value))
        expected = "\n".join(map(_text_of, cell["outputs"]))
        assert out.getvalue().rstrip("\n") == expected, (cell["source"], out.getvalue())


if __name__ == "__main__":
    run(*sys.argv[1:])
