"""The reader of bodies in Node that docs/bodies.md shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from rsmq import JSON
from rsmq.codecs import Compressed, Encrypted
from rsmq.wire.body_format import add_origin
from tests.documents.pages import DOCS

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")

KEY = bytes(range(32))
BODY = [{"text": "über " * 20, "number": number} for number in range(100)]
_MAIN = """
const [queue, key, ...messages] = JSON.parse(require('node:fs').readFileSync(0))
const keys = { k1: Buffer.from(key, 'hex') }
const read = (message) => {
  try { return readBody(message, queue, keys) } catch (error) { return `${error.message}` }
}
console.log(JSON.stringify(messages.map(read)))
"""


def read_in_node(*bodies, queue="rsmq:orders"):
    (program,) = re.findall(r"```js\n(.*?)```", (DOCS / "bodies.md").read_text(), re.DOTALL)
    assert len(program.splitlines()) <= 25
    messages = [each if isinstance(each, str) else each.decode() for each in bodies]
    result = subprocess.run(
        ["node", "-e", program + _MAIN],
        input=json.dumps([queue, KEY.hex(), *messages]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_it_reads_what_the_codecs_write():
    compressed = Compressed(JSON, method="zlib")
    encrypted = Encrypted(compressed, keys={"k1": KEY}).for_queue(b"rsmq:orders")
    moved = add_origin(encrypted.encode(BODY).encode(), b"rsmq:orders")

    stored = [compressed.encode(BODY), encrypted.encode(BODY), encrypted.encode(5), "plain"]
    texts = [JSON.encode(BODY), JSON.encode(BODY), "5", "plain"]
    assert read_in_node(*stored, moved) == [*texts, JSON.encode(BODY)]
    assert read_in_node(moved, queue="rsmq:dead") == [JSON.encode(BODY)]


def test_it_refuses_the_rest():
    encrypted = Encrypted(JSON, keys={"k1": KEY}).for_queue(b"rsmq:other").encode(BODY)
    found = read_in_node(
        encrypted, "rsmq-body/2:x::", "rsmq-body/1:x=1::", "rsmq-body/1:zlib=2::eJxLTEoGAAJNASc="
    )
    assert "authenticate" in found[0]
    assert found[1:3] == ["unknown format rsmq-body/2", "unknown step x"]
    assert "larger than" in found[3]
