"""Node's client enqueues a Django task; it receives those of Django as ordinary messages."""

from __future__ import annotations

import json

import pytest
from django.test import override_settings

from rsmq.django.task_interface import TaskResultDoesNotExist
from tests.django import shop
from tests.django.environment import Environment, tasks_setting


def test_node_enqueues_a_django_task_and_receives_one(node, server, ns):
    with override_settings(TASKS=tasks_setting(server.url, ns=ns)):
        env = Environment()
        node.create_queue("default")
        id = node.send_message("default", '{"task": "tests.django.shop.add", "args": {"a": 1}}')
        env.run()
        assert env.backend.get_result(f"{id}-default").return_value == 2
        with server.raw() as raw:
            assert raw.hget(f"{ns}:default:x:job:{id}", "result") == b"2"

        result = shop.add.enqueue(1, b=3)
        received = node.receive_message("default")
        assert result.id == f"{received['id']}-default"
        assert json.loads(received["message"]) == {
            "task": "tests.django.shop.add", "args": {"b": 3}, "positional": [1],
        }  # fmt: skip
        assert node.delete_message("default", received["id"])
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
        env.client.close()
