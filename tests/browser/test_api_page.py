"""The page that describes the API: readable, short, and searched by its field."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from rsmq.web.pages.api_page import _GROUPS
from rsmq.web.routes import TABLE
from tests.browser.chromium import THEMES, WIDTHS
from tests.browser.serving import serving


@pytest.mark.parametrize(("width", "theme"), list(zip(WIDTHS, THEMES, strict=True)))
def test_the_page_of_the_api_is_readable_in_each_window_and_theme(chromium, width, theme):
    with serving("memory://api-page") as address:
        chromium.set_view(width, theme)
        text, found = chromium.visit(f"{address}/api/v1/docs")
        assert "API of rsmq" in text
        found += chromium.accessibility_problems()
        chromium.driver.execute_script(_OPEN)
        found += chromium.look()[1] + chromium.accessibility_problems()
        assert [*found, *chromium.problems()] == []


_OPEN = "for (const each of document.querySelectorAll('details')) each.open = true;"
_SHOWN = """
return [...document.querySelectorAll(".operation, section > h2")]
  .filter(each => each.checkVisibility()).map(each => each.innerText.split("\\n")[0]);
"""


def test_an_operation_is_found_by_words_of_its_path_its_summary_and_the_method_of_the_client(
    chromium,
):
    with serving("memory://api-page") as address:
        chromium.set_view(390, is_phone=True)
        chromium.visit(f"{address}/api/v1/docs")
        run, body = (
            chromium.driver.execute_script,
            chromium.driver.find_element(By.TAG_NAME, "body"),
        )
        everything = run(_SHOWN)
        assert len(everything) == len(TABLE) + len(_GROUPS) + 1
        assert run("return document.documentElement.scrollHeight;") < 9000
        body.send_keys("/")
        field = chromium.driver.switch_to.active_element
        for words, expected in (
            (
                "POST RESUME_QUEUE",
                ["Queues", "POST /queues/{queue}:resume Let workers receive again."],
            ),
            (
                "limits remove",
                ["Queues", "DELETE /queues/{queue}/limits Remove the limits of a queue."],
            ),
            ("no such operation", []),
            ("", everything),
        ):
            field.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE, words)
            assert run(_SHOWN) == expected
        chromium.visit(f"{address}/api/v1/docs#post-publish")
        assert [each for each in run(_OPENED) if each] == ["post-publish"]


_OPENED = """
return [...document.querySelectorAll(".operation[open] > div")].map(each => each.id);
"""
