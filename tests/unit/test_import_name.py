"""The advice for programs whose workers child processes can't import."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from rsmq.errors import InvalidFormat
from rsmq.worker.children.import_name import find_import_name


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        (None, "so write its program to a file"),
        ("my-worker.py", "so rename its program 'my-worker.py' to the name of a module, such as"),
        ("my-worker.py", "such as 'my_worker.py'"),
        ("2nd worker.py", "such as '_2nd_worker.py'"),
        ("worker", "such as 'worker.py'"),
        ("worker.py", "so the folder of its program 'worker.py' must be in sys.path"),
    ],
)
def test_the_advice_says_what_is_wrong_with_the_file_of_the_program(
    monkeypatch, tmp_path, path, advice
):
    main, worker = ModuleType("__main__"), object()
    main.worker = worker
    if path is not None:
        main.__file__ = str(tmp_path / path)
    monkeypatch.setitem(sys.modules, "__main__", main)

    with pytest.raises(InvalidFormat) as refused:
        find_import_name(worker)
    assert advice in str(refused.value)


def test_a_worker_of_a_function_must_be_a_global():
    with pytest.raises(InvalidFormat, match="must be a global of a module"):
        find_import_name(object())
