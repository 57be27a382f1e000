"""Hostile values in all that Redis stores are shown as texts, and do nothing."""

import pytest

from rsmq.web.pages import rendering
from tests.browser.chromium import THEMES, WIDTHS
from tests.browser.hostile import TEXTS
from tests.nodes import wait_until

#: What a template language would make of the value that contains 7*6173.
_COMPUTED = "43211"


def _problems(chromium, site, paths):
    found = {}
    for path in paths:
        text, bad = chromium.visit(site.address + path)
        bad += chromium.problems()
        if _COMPUTED in text:
            bad.append("a template was run")
        if bad:
            found[path] = bad
    return found


def test_hostile_values_do_nothing_on_any_page(chromium, hostile_site):
    chromium.set_view()
    assert _problems(chromium, hostile_site, hostile_site.paths) == {}


def test_hostile_values_do_nothing_in_a_narrow_window_and_the_dark(chromium, hostile_site):
    chromium.set_view(min(WIDTHS), THEMES[1])
    assert _problems(chromium, hostile_site, hostile_site.pages) == {}


def test_hostile_values_do_nothing_when_a_page_refreshes(chromium, hostile_site):
    chromium.set_view()
    chromium.visit(f"{hostile_site.address}/queues?q=refreshed")
    with hostile_site.server.raw() as raw:
        name = f"refreshed {''.join(TEXTS[:5])}"
        raw.hset(f"rsmq:{name}:Q", mapping=raw.hgetall("rsmq:jobs:Q"))
        raw.sadd("rsmq:QUEUES", name)
    _, bad = wait_until(lambda: "refreshed <x-hostile>" in (seen := chromium.look())[0] and seen)
    assert [*bad, *chromium.problems()] == []


@pytest.fixture
def unescaped(monkeypatch):
    """Let templates show texts as markup."""
    environment = rendering._environment()
    monkeypatch.setattr(environment, "autoescape", False)
    environment.cache.clear()
    yield
    environment.cache.clear()


def test_without_escaping_the_hostile_values_would_be_found(chromium, hostile_site, unescaped):
    chromium.set_view()
    missing = {"CSP: script-src", "markup: <x-hostile"}
    for path in hostile_site.pages:
        found = str(_problems(chromium, hostile_site, [path]))
        missing = {each for each in missing if each not in found}
        if not missing:
            break
    assert missing == set()
