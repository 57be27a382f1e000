"""Pages that look again while they are open."""

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
