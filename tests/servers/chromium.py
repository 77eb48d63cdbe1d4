"""A headless Chromium that tests control through chromedriver, without any network access.

Debian's packages `chromium` and `chromium-driver` have matching versions. Pages are opened from files; the browser
resolves no host names, so that a page that requests a URL fails and the request is in the log.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.servers import jars
from tests.servers.processes import HANG_SECONDS

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.support.wait import WebDriverWait
except ImportError:
    webdriver = None

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
SIZE = (1280, 900)


class Browser:
    """A running Chromium."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Load a page from a file, and discard earlier log entries."""
        self.logs()
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script; return its value."""
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, script: str) -> Any:
        """Poll a script until its value is true; return the value."""
        return WebDriverWait(self.driver, 30, poll_frequency=0.02).until(
            lambda driver: driver.execute_script(script)
        )

    def keys(self, *keys: str) -> None:
        """Press keys one after the other in the focused element."""
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def emulate(self, *, scheme: str = "", media: str = "", motion: str = "") -> None:
        """Emulate colour scheme, medium and reduced motion; "" = not emulated."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.command("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def command(self, name: str, arguments: Mapping[str, object]) -> Any:
        """Send a command of the Chrome DevTools Protocol."""
        return self.driver.execute_cdp_cmd(name, dict(arguments))

    def logs(self) -> tuple[list[str], list[str]]:
        """Return the console messages and the requested URLs since the last call."""
        messages = [
            f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")
        ]
        events = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        urls = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return messages, urls

    def picture(self, path: Path) -> None:
        """Save the visible part of the page as a PNG."""
        self.driver.save_screenshot(str(path))


@contextlib.contextmanager
def chromium(size: tuple[int, int] = SIZE) -> Iterator[Browser]:
    """Start a browser with a temporary profile; stop and remove both afterwards.

    Raises:
        ServersUnavailable: Chromium, its driver or selenium is missing.
    """
    browser = jars.program(
        "chromium", "Chromium (Debian: apt-get install chromium chromium-driver)"
    )
    driver = jars.program("chromedriver", "its driver (Debian: apt-get install chromium-driver)")
    if webdriver is None:
        raise jars.ServersUnavailable("`selenium` was not found: pip install selenium.")
    profile = tempfile.mkdtemp(prefix="kquota-chromium-")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        service = webdriver.ChromeService(executable_path=driver)
        running = webdriver.Chrome(options=options, service=service)
        try:
            running.set_script_timeout(HANG_SECONDS)
            yield Browser(running)
        finally:
            running.quit()
    finally:
        shutil.rmtree(profile, ignore_errors=True)
