"""Pages that look again while they are open."""

from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from rsmq import RSMQ
from tests.nodes import wait_until


def test_the_facts_and_actions_of_a_message_end_with_it(chromium, busy_site):
    chromium.set_view()
    with RSMQ.from_url(busy_site.server.url) as queues:
        queues.create_queue("refreshed")
        id = queues.send_message("refreshed", "x")
        chromium.visit(f"{busy_site.address}/queues/refreshed/messages/{id}")
        shown = chromium.look()[0]
        assert "Facts" in shown
        assert "/actions/delete-messages" in chromium.driver.page_source
        queues.delete_message("refreshed", id)
        wait_until(lambda: "Facts" not in chromium.look()[0])
        assert "/actions/delete-messages" not in chromium.driver.page_source
        assert "gone" in chromium.look()[0]
        queues.delete_queue("refreshed")


def test_a_page_is_not_called_live_while_the_server_does_not_answer(chromium, busy_site):
    chromium.set_view()
    chromium.visit(busy_site.address)
    shown = chromium.driver.execute_script(
        # In one step: the next answer removes the attribute.
        """
        const state = document.getElementById("state"), before = state.innerText;
        state.setAttribute("data-lost", "");
        return [before, state.innerText];
        """
    )
    assert "live" in shown[0]
    assert shown[1].startswith("The server does not answer")


_READS = "return performance.getEntriesByName(location.href, 'resource').length;"


def test_a_button_that_is_pressed_while_its_page_changes_gets_its_click(chromium, busy_site):
    chromium.set_view()
    driver = chromium.driver
    with RSMQ.from_url(busy_site.server.url) as queues:
        queues.create_queue("pressed")
        queues.pause_queue("pressed")
        chromium.visit(f"{busy_site.address}/queues/pressed")
        button = driver.find_element(By.LINK_TEXT, "Resume")
        ActionChains(driver).click_and_hold(button).perform()
        queues.resume_queue("pressed")  # the button would be another one
        before = driver.execute_script(_READS)
        wait_until(lambda: driver.execute_script(_READS) >= before + 3)
        ActionChains(driver).release().perform()
        wait_until(lambda: "/actions/resume" in driver.current_url)
        queues.delete_queue("pressed")
