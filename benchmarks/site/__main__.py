"""python -m benchmarks.site: a store of 365 nights, 100 cases and 24 incidents.

Its site's build time, its pages' sizes, and how long they take to load in headless Chromium.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.site.browser import Browser
from benchmarks.site.year import fill_incidents, fill_nights
from precision_bisect.bisect.pages.site import write_site
from precision_bisect.store.database import open_store, sqlite_url

NIGHTS, CASES, INCIDENTS = 365, 100, 24


def main() -> None:
    """Make the store, build the site twice, load its pages, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = open_store(sqlite_url(Path(folder) / "store.sqlite"))
        fill_nights(sessions, nights=NIGHTS, cases=CASES)
        fill_incidents(sessions, Path(folder) / "reports", nights=NIGHTS, cases=CASES, incidents=INCIDENTS)
        site = Path(folder) / "site"
        for turn in ("first build", "again"):
            before, of_processor = time.perf_counter(), time.process_time()
            written = write_site(sessions, site)
            print(
                f"{turn}: {time.perf_counter() - before:.1f} s ({time.process_time() - of_processor:.1f} s of the "
                f"processor), {written.changed} of {written.pages} changed",
                flush=True,
            )
        print(f"largest page: {written.largest}, {written.largest_bytes / 1024:.0f} KiB")
        with Browser() as browser:
            for kind, seconds, pages, slowest in load_times(browser, site):
                print(f"{kind}: {pages} pages loaded, slowest {seconds:.2f} s ({slowest})", flush=True)


def load_times(browser: Browser, site: Path) -> list[tuple[str, float, int, str]]:
    """Kind of page, slowest load in seconds from navigation to the load event, pages loaded, the slowest one.

    Of a kind with many pages, the 10 largest are loaded, each three times, the fastest of which counts.
    """
    kinds: dict[str, list[Path]] = {}
    for file in site.rglob("*.html"):
        kinds.setdefault(_kind(file.relative_to(site)), []).append(file)
    found: list[tuple[str, float, int, str]] = []
    for kind, files in sorted(kinds.items()):
        largest = sorted(files, key=lambda file: -file.stat().st_size)[:10]
        times = {file: min(browser.load_seconds(file) for _ in range(3)) for file in largest}
        slowest = max(largest, key=lambda file: times[file])
        found.append((kind, times[slowest], len(largest), str(slowest.relative_to(site))))
    return found


def _kind(place: Path) -> str:
    if len(place.parts) == 1:
        return place.stem
    if place.parts[0] != "jobs":
        return place.parts[0]
    return "jobs" if len(place.parts) == 2 else place.stem.partition("-")[0]


if __name__ == "__main__":
    main()
