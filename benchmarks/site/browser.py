"""Headless Chromium, Debian's: what the tests and the measurements of the pages see."""

import base64
import shutil
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ABSENT = (
    "Chromium or selenium is not installed "
    "(Debian: apt-get install chromium chromium-driver; pip install selenium)"
)
DESKTOP, PHONE = (1280, 900), (360, 780)


def installed() -> bool:
    """Whether this machine has the browser, its driver, and selenium, which is imported only where it is used."""
    return None not in (shutil.which("chromium"), shutil.which("chromedriver"), find_spec("selenium"))


class Browser:
    """A browser of its own, with a fresh profile and no network but this machine's."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for argument in (
            "--headless=new",
            "--no-sandbox",  # its sandbox refuses root, as which containers run
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.size(DESKTOP)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.driver.quit()

    def size(self, size: tuple[int, int]) -> None:
        """The window in CSS pixels; a narrow one is a phone's."""
        width, height = size
        mobile = width < 600
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile},
        )

    def scheme(self, scheme: str) -> None:
        """`light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})

    def open(self, page: Path | str) -> None:
        """Load a file or an address, and wait for its load event."""
        self.driver.get(page if isinstance(page, str) else page.as_uri())

    def complaints(self) -> list[str]:
        """What the console has said since it was last asked: errors, warnings, violations of the policy."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def ask(self, script: str, *values: Any) -> Any:
        """The value of a script's `return`. The page's policy does not bind it."""
        return self.driver.execute_script(script, *values)

    def press(self, *keys: str) -> None:
        """Press keys, one after another, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def load_seconds(self, page: Path) -> float:
        """From the start of the navigation to the end of the load event."""
        self.open(page)
        script = "const [n] = performance.getEntriesByType('navigation'); return n.loadEventEnd - n.startTime"
        return float(self.ask(script)) / 1000

    def screenshot(self, file: Path) -> None:
        """The whole page, at the window's width."""
        width, height = self.ask("return [innerWidth, Math.min(6000, document.documentElement.scrollHeight)]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        file.write_bytes(base64.b64decode(picture["data"]))

    def _devtools(self, command: str, values: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(command, values)
