"""Actions by keyboard alone."""

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from rsmq import RSMQ
from tests.nodes import wait_until

_FOCUSED = "const it = document.activeElement; return [it.innerText, it.name];"


class Keyboard:
    """Presses keys: what has the focus gets them."""

    def __init__(self, chromium):
        self._driver = chromium.driver

    def press(self, *keys):
        ActionChains(self._driver).send_keys(*keys).perform()

    def tab_to(self, text):
        """Press Tab until something with this text or name has the focus."""
        for _ in range(200):
            if text in self._driver.execute_script(_FOCUSED):
                return
            self.press(Keys.TAB)
        raise AssertionError(f"Tab does not reach {text}")


def test_a_queue_is_paused_and_purged_by_keyboard(chromium, busy_site):
    chromium.set_view()
    keyboard = Keyboard(chromium)
    with RSMQ.from_url(busy_site.server.url) as queues:
        queues.create_queue("by-keyboard", exist_ok=True)
        queues.send_messages("by-keyboard", ["a", "b"])
        chromium.visit(f"{busy_site.address}/queues/by-keyboard")
        keyboard.tab_to("Pause")
        keyboard.press(Keys.ENTER)
        wait_until(lambda: queues.get_queue_attributes("by-keyboard").paused)
        wait_until(lambda: "by-keyboard is paused" in chromium.look()[0])
        keyboard.tab_to("Purge")
        keyboard.press(Keys.ENTER)
        wait_until(lambda: "Removes 2 messages from by-keyboard" in chromium.look()[0])
        keyboard.tab_to("typed-name")
        keyboard.press("by-keyboard", Keys.ENTER)
        wait_until(lambda: queues.get_queue_attributes("by-keyboard").messages == 0)
        wait_until(lambda: "was purged" in chromium.look()[0])
        queues.delete_queue("by-keyboard")
