"""memory://, where the Lua runtime of fakeredis compiles each script once."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from rsmq.transport import memory

SCRIPT = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}"


@pytest.fixture
def server():
    return memory._Server(server_type="redis")


@pytest.fixture
def client(server):
    return memory.fakeredis.FakeRedis(server=server)


def test_each_script_is_compiled_once_and_runs_with_its_own_arguments(server, client, monkeypatch):
    client.ping()
    client.eval("return 1", 0)
    runtime = server._lua_runtime._runtime
    compiled = []

    class Counting:
        def compile(self, script):
            compiled.append(script)
            return runtime.compile(script)

        def __getattr__(self, name):
            return getattr(runtime, name)

    monkeypatch.setattr(server._lua_runtime, "_runtime", Counting())

    assert [client.eval(SCRIPT, 1, key, key * 2) for key in "aba"] == [
        [b"a", b"aa", 1],
        [b"b", b"bb", 1],
        [b"a", b"aa", 2],
    ]
    assert compiled == [SCRIPT.encode()]


def test_script_that_sets_a_global_is_refused_before_it_changes_anything(client):
    client.eval("return 1", 0)
    with pytest.raises(ResponseError, match="global"):
        client.eval("leaked = 1 redis.call('SET', 'k', 'v')", 0)
    assert client.get("k") is None


@pytest.mark.parametrize("script", ["this is not Lua", "error('no')", "return redis.call('NO')"])
def test_script_that_fails_fails_again(client, script):
    for _ in range(2):
        with pytest.raises(ResponseError):
            client.eval(script, 0)
