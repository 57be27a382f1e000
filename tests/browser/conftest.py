"""One Chromium for each process of tests."""

import pytest

from tests.browser.chromium import Chromium


@pytest.fixture(scope="session")
def chromium():
    browser = Chromium()
    yield browser
    browser.quit()
