"""The page that describes the API, which has no script."""

import pytest

from tests.browser.chromium import THEMES, WIDTHS
from tests.browser.serving import serving


@pytest.mark.parametrize(("width", "theme"), list(zip(WIDTHS, THEMES, strict=True)))
def test_the_page_of_the_api_is_readable_in_each_window_and_theme(chromium, width, theme):
    with serving("memory://api-page") as address:
        chromium.set_view(width, theme)
        text, found = chromium.visit(f"{address}/api/v1/docs")
        assert "API of rsmq" in text
        assert [*found, *chromium.problems(), *chromium.accessibility_problems()] == []
