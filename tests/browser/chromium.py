"""Chromium, driven by Selenium, and what it has seen of a page."""

from __future__ import annotations

import json
import shutil
from urllib.parse import urlsplit

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.scale import WAIT_SECONDS
from tests.servers import ROOT

_AXE = ROOT / "tests/browser/node_modules/axe-core/axe.min.js"
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
    "--force-prefers-reduced-motion", "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)  # fmt: skip
WIDTHS = (360, 1280)
THEMES = ("light", "dark")
#: WCAG 2.2 AA.
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

# Runs before the scripts of each page. A dialog would stop the test, so calls are only noted.
_WATCH = """
window.seen = [];
for (const name of ["alert", "confirm", "prompt", "print", "open"])
  window[name] = (...words) => { window.seen.push(`${name}(${words})`); };
addEventListener("securitypolicyviolation", event => window.seen.push(
  `CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
addEventListener("error", event => window.seen.push(`error: ${event.message}`), true);
addEventListener("unhandledrejection", event => window.seen.push(`rejected: ${event.reason}`));
"""

_LOOK = """
const bad = [...window.seen];
for (const each of document.querySelectorAll("x-hostile, [x-hostile]"))
  bad.push(`markup: ${each.outerHTML.slice(0, 200)}`);
for (const each of document.querySelectorAll("[href], [src], [action], [formaction]"))
  for (const name of ["href", "src", "action", "formaction"]) {
    const text = each.getAttribute(name);
    if (text !== null && new URL(text, document.baseURI).origin !== location.origin)
      bad.push(`leads elsewhere: ${each.outerHTML.slice(0, 200)}`);
  }
const width = document.documentElement.scrollWidth;
if (width > innerWidth) bad.push(`wider than its window: ${width}`);
return [bad, document.body.innerText];
"""


class Chromium:
    """A browser."""

    def __init__(self):
        options = Options()
        options.binary_location = _path_of("chromium")
        for argument in _ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})
        self.driver = Chrome(options=options, service=Service(_path_of("chromedriver")))
        self.driver.set_script_timeout(WAIT_SECONDS)
        self.driver.set_page_load_timeout(30)
        self._command("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        self._command("Emulation.setScrollbarsHidden", hidden=True)
        self.set_view()

    def _command(self, name, **values):
        return self.driver.execute_cdp_cmd(name, values)

    def quit(self):
        self.driver.quit()

    def set_view(self, width=1280, theme="light", *, is_phone=False):
        """Close the page, and show others in a window of this width, in the colours of a theme."""
        self.driver.get("about:blank")
        self.problems()
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=is_phone,
        )  # fmt: skip
        self._command("Emulation.setTouchEmulationEnabled", enabled=is_phone)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self._command("Emulation.setEmulatedMedia", features=features)

    def visit(self, url):
        """Open a page; return its text and what is wrong with it."""
        self.driver.get(url)
        return self.look()

    def log_in(self, address, secret):
        """Log in to a dashboard with a token, a key or the link's key, as a person does."""
        self.visit(address)
        self.driver.find_element(By.CSS_SELECTOR, "input[type=password]").send_keys(secret)
        self.driver.find_element(By.CSS_SELECTOR, "form button").click()
        return self.look()

    def look(self):
        """Return the text of the page that is open, and what is wrong with it."""
        bad, text = self.driver.execute_script(_LOOK)
        return text, bad

    def problems(self):
        """
        Return what the logs have since the last call: errors of the console, and the addresses
        of other servers that a page has asked.
        """
        # The page itself may be one that says what is wrong, with a status of its own.
        own = f"{self.driver.current_url} - Failed to load resource"
        found = [
            each["message"]
            for each in self.driver.get_log("browser")
            if each["level"] == "SEVERE" and not each["message"].startswith(own)
        ]
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                if urlsplit(url).hostname != "127.0.0.1" and urlsplit(url).scheme != "data":
                    found.append(f"asks {url}")
        return found

    def accessibility_problems(self):
        """Return the violations that axe finds in the page that is open: rules with elements."""
        self.driver.execute_script(_axe())
        report = self.driver.execute_async_script(
            "const done = arguments[1]; axe.run(document, {runOnly: arguments[0],"
            " resultTypes: ['violations']}).then(done, error => done({violations:"
            " [{id: String(error), nodes: []}]}));",
            _RULES,
        )
        return [
            f"{each['id']}: {node['html'][:160]} {node['failureSummary']}"
            for each in report["violations"]
            for node in each["nodes"] or [{"html": "", "failureSummary": each["id"]}]
        ]


def _path_of(program):
    path = shutil.which(program)
    assert path, f"{program} is missing: scripts/test says how to get it"
    return path


def _axe():
    assert _AXE.exists(), "axe-core is missing: run scripts/peers"
    return _AXE.read_text()
