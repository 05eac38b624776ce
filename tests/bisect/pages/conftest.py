"""A browser for all tests of pages, and a small made-up store to show in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.site.browser import ABSENT, Browser, installed
from benchmarks.site.year import fill_incidents, fill_nights
from precision_bisect.bisect.pages.site import write_site
from tests.support.stores import new_store


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium; the tests are skipped where it is absent."""
    if not installed():
        pytest.skip(ABSENT)
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of 40 nights, six cells and three incidents, one of them of a noisy case, one closed."""
    folder = tmp_path_factory.mktemp("site")
    sessions = new_store(folder / "store.sqlite")
    fill_nights(sessions, nights=40, cases=6)
    fill_incidents(sessions, folder / "reports", nights=40, cases=6, incidents=3)
    write_site(sessions, folder / "site")
    return folder / "site"
