"""The standard streams of the programs."""

from __future__ import annotations

import gc
import io
import sys

from rsmq.cli.app.standard_streams import complete_streams


def test_the_output_of_the_caller_stays_open(tmp_path, monkeypatch):
    """A program that calls ours, such as pytest, may have an unbuffered output."""
    path = tmp_path / "output"
    with path.open("wb", buffering=0) as raw:
        caller = io.TextIOWrapper(raw, write_through=True)
        with monkeypatch.context() as context:
            context.setattr(sys, "stdout", caller)
            complete_streams()
            print("ours")
            sys.stdout = caller
        gc.collect()
        assert not raw.closed
        print("theirs", file=caller)
    assert path.read_text() == "ours\ntheirs\n"
