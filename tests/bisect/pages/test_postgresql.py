"""A team's store: the same pages from PostgreSQL as from SQLite."""

from pathlib import Path

import pytest

from benchmarks.site.year import fill_incidents, fill_nights
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.store.database import open_store, sqlite_url
from tests.bisect.pages.test_site_folder import check_pages
from tests.store.conftest import postgresql_server, postgresql_url  # noqa: F401


def pages(url: str, folder: Path) -> dict[str, int]:
    """The pages of a small store, with their numbers of links."""
    sessions = open_store(url)
    fill_nights(sessions, nights=8, cases=2, environment=1000)
    fill_incidents(sessions, folder / "reports", nights=8, cases=2, incidents=1)
    write_site(sessions, folder / "site")
    check_pages(folder / "site")
    return {
        str(file.relative_to(folder / "site")): file.read_text(encoding="utf-8").count("<a ")
        for file in (folder / "site").rglob("*.html")
    }


@pytest.mark.long
def test_both_stores_have_the_same_pages(postgresql_url: str, tmp_path: Path) -> None:  # noqa: F811
    on_sqlite = pages(sqlite_url(tmp_path / "store.sqlite"), tmp_path / "sqlite")
    assert on_sqlite == pages(postgresql_url, tmp_path / "postgresql")
    assert len(on_sqlite) > 10
