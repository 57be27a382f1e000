"""Actions by keyboard alone."""

from selenium.webdriver.common.keys import Keys

from rsmq import RSMQ
from tests.nodes import wait_until


def _press_until(chromium, text):
    """Press Tab until something with this text has the focus."""
    for _ in range(200):
        active = chromium.driver.switch_to.active_element
        if active.text == text:
            return active
        active.send_keys(Keys.TAB)
    raise AssertionError(f"Tab does not reach {text}")


def test_a_queue_is_paused_and_purged_by_keyboard(chromium, busy_site):
    chromium.set_view()
    with RSMQ.from_url(busy_site.server.url) as queues:
        queues.create_queue("by-keyboard", exist_ok=True)
        queues.send_messages("by-keyboard", ["a", "b"])
        chromium.visit(f"{busy_site.address}/queues/by-keyboard")
        _press_until(chromium, "Pause").send_keys(Keys.ENTER)
        wait_until(lambda: queues.get_queue_attributes("by-keyboard").paused)
        wait_until(lambda: "by-keyboard is paused" in chromium.look()[0])
        _press_until(chromium, "Purge").send_keys(Keys.ENTER)
        wait_until(lambda: "Removes 2 messages from by-keyboard" in chromium.look()[0])
        field = chromium.driver.find_element("name", "typed-name")
        assert chromium.driver.switch_to.active_element == field
        field.send_keys("by-keyboard", Keys.ENTER)
        wait_until(lambda: queues.get_queue_attributes("by-keyboard").messages == 0)
        wait_until(lambda: "was purged" in chromium.look()[0])
        queues.delete_queue("by-keyboard")
