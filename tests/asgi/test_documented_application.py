"""The application of docs/fastapi.md: its types, and its answers to wrong requests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from mypy import api

from tests.documents.pages import read_blocks

ROOT = Path(__file__).parents[2]
FILES = {
    block.file: block.code
    for block in read_blocks("fastapi.md")
    if block.file and not block.file.startswith("test_")
}
NO_ID = "0123456789012345678901234567890a"


@pytest.fixture
def folder(tmp_path):
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    return tmp_path


def test_its_files_have_types(folder):
    assert set(FILES) == {"shop.py", "own.py"}
    paths = [str(folder / name) for name in FILES]
    options = ["--strict", "--config-file=", "--cache-dir", str(ROOT / ".mypy_cache")]
    found, _, code = api.run([*options, *paths])

    assert code == 0, found


@pytest.fixture
def client(folder, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "memory://documented-application")
    monkeypatch.syspath_prepend(folder)
    with TestClient(importlib.import_module("shop").app, raise_server_exceptions=False) as client:
        yield client
    del sys.modules["shop"]


@pytest.mark.parametrize("path", [f"exports/{NO_ID}", "exports/1", "exports/%20", f"a%20b/{NO_ID}"])
def test_a_job_that_does_not_exist_is_not_found(client, path):
    assert client.get(f"/jobs/{path}").status_code == 404
    assert client.delete(f"/jobs/{path}").status_code == 404


@pytest.mark.parametrize(
    "path", ["albums?name=sea&pictures=10001", "albums?name=sea&pictures=-1", "exports?rows=many"]
)
def test_a_wrong_number_is_refused(client, path):
    assert client.post(f"/{path}").status_code == 422


def test_an_order_that_is_too_large_is_refused(client):
    order = {"customer": "a" * 70_000, "amount": 5}
    assert client.post("/orders", json=order).status_code == 422
