"""The switch of namespaces at the top of each page."""

import pytest
from selenium.webdriver.common.keys import Keys

from rsmq import RSMQ
from tests.browser.chromium import THEMES, WIDTHS
from tests.browser.serving import serving
from tests.browser.test_keyboard import Keyboard
from tests.nodes import wait_until
from tests.servers import Server, redis_7

_NAMES = ("shop", "{billing/éu:0}", "a namespace whose name is longer than there is room for")


@pytest.fixture(scope="module")
def address():
    server = Server(redis_7())
    try:
        for name in _NAMES:
            with RSMQ.from_url(server.url, ns=name) as queues:
                queues.create_queue(f"queue-of-{_NAMES.index(name)}")
        with serving(server.url, *_NAMES) as address:
            yield address
    finally:
        server.stop()


@pytest.mark.parametrize(("theme", "width"), [*zip(THEMES, WIDTHS, strict=True)])
def test_pages_with_a_switch_are_accessible_and_fit_into_their_window(
    chromium, address, theme, width
):
    chromium.set_view(width, theme)
    for path in ("/", "/queues", "/ns/%7Bbilling%2F%C3%A9u%3A0%7D/queues", "/ns/none/"):
        _, bad = chromium.visit(address + path)
        assert bad + chromium.accessibility_problems() == [], path


def test_the_switch_leads_to_the_same_page_of_another_namespace_by_keyboard(chromium, address):
    chromium.set_view()
    keyboard = Keyboard(chromium)
    for at, key in ((1, Keys.ARROW_DOWN), (2, Keys.ARROW_DOWN), (1, Keys.ARROW_UP)):
        if at == 1 and key == Keys.ARROW_DOWN:
            chromium.visit(f"{address}/queues")
        keyboard.tab_to("ns")
        keyboard.press(key)
        keyboard.tab_to("Switch")
        keyboard.press(Keys.ENTER)
        wait_until(lambda at=at: f"queue-of-{at}" in chromium.look()[0])
        assert chromium.driver.current_url.endswith("/queues")
