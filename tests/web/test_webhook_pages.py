"""The page of webhooks."""

import json

import pytest

from rsmq.operations.plain import plain_command
from rsmq.push.async_subscribers import AsyncSubscribers
from rsmq.webhooks.targets import target_field
from tests.web.pages_client import open_pages, read_page, run_action

_URL = "https://example.org/hooks"


async def _store_state(queues, queue, url, state, **facts):
    stored = {
        "queue": queue, "url": url, "state": state, "failures": 3, "openings": 1, "until_ms": 0,
        "owner": "", "answer": "500 <b>", **facts,
    }  # fmt: skip
    key = queues.namespace.push_targets
    await queues.run(plain_command("HSET", key, target_field(queue, url), json.dumps(stored)))


@pytest.mark.parametrize(
    ("state", "shown"),
    [("open", "stopped"), ("gone", "ended by 410"), ("paused", "paused by it")],
)
async def test_a_subscriber_has_the_state_of_its_target_and_is_resumed(state, shown, http, queues):
    await queues.create_queue("orders")
    await AsyncSubscribers(queues).add("orders", "crm", _URL, secret_env="CRM_SECRET")
    open_pages(http)
    text = await read_page(http, "/webhooks")
    assert ">active<" in text
    assert "$CRM_SECRET" in text
    await _store_state(queues, "orders-crm", _URL, state)
    http.app.router.default.forget_all()
    text = await read_page(http, "/webhooks")
    assert f">{shown}<" in text
    assert "500 &lt;b&gt;" in text
    assert "/actions/resume-webhook" in text
    assert (await run_action(http, "resume-webhook", queue="orders-crm")).status == 303
    assert ">active<" in await read_page(http, "/webhooks")


async def test_a_target_to_which_a_process_can_not_push_has_the_reason(http, queues):
    await queues.create_queue("orders")
    await AsyncSubscribers(queues).add("orders", "crm", _URL, secret_env="CRM_SECRET")
    reason = "Invalid secret_env format: 'CRM_SECRET'. Set it to the secret."
    await _store_state(queues, "orders-crm", _URL, "closed", refusal=reason)
    (listed,) = (await http("GET", "/webhooks")).json["webhooks"]
    assert listed["refusal"] == reason
    (alert,) = [
        each for each in (await http("GET", "/alerts")).json["alerts"]
        if each["kind"] == "webhook-stopped"
    ]  # fmt: skip
    assert reason in alert["evidence"]
    text = await read_page(open_pages(http), "/webhooks")
    assert ">not pushed<" in text
    assert "Set it to the secret." in text


async def test_a_subscriber_is_added_and_removed(http, queues):
    await queues.create_queue("orders")
    open_pages(http)
    assert "rsmq subscribers add orders" in await read_page(http, "/webhooks")
    fields = {"queue": "orders", "subscriber": "crm", "concurrency": "8", "max_retries": ""}
    wrong = await run_action(http, "add-subscriber", **fields, url="ftp://example.org")
    assert wrong.status == 422
    assert (await run_action(http, "add-subscriber", **fields, url=_URL)).status == 303
    await queues.send_message("orders-crm", "x")
    page = await read_page(http, "/actions/remove-subscriber?queue=orders&subscriber=crm")
    assert "1 message that wait for it" in page
    removal = {"queue": "orders", "subscriber": "crm", "drop": "true"}
    assert (await run_action(http, "remove-subscriber", **removal)).status == 422
    await run_action(http, "remove-subscriber", **removal, typed="crm")
    assert await AsyncSubscribers(queues).list("orders") == []


async def test_a_target_of_no_subscriber_is_forgotten(http, queues):
    await queues.create_queue("q")
    await _store_state(queues, "q", _URL, "gone")
    open_pages(http)
    assert "Other targets" in await read_page(http, "/webhooks")
    page = await read_page(http, f"/actions/forget-webhook?queue=q&url={_URL}")
    assert "Forgets the state of 1 target" in page
    await run_action(http, "forget-webhook", queue="q", url=_URL)
    assert "Other targets" not in await read_page(http, "/webhooks")
