"""python -m benchmarks.site: a store of 365 nights with 100 cases, its site's build time and page sizes."""

import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.bisect.site.folder import write_site
from precision_bisect.store.database import open_store, sqlite_url
from precision_bisect.store.nightly import CaseResult, CaseRun, Cell, Night, Status
from precision_bisect.store.schema import EnvironmentRecord
from precision_bisect.store.vocabulary import Verdict

NIGHTS, CASES = 365, 100
_START = datetime(2025, 1, 1, 2, tzinfo=UTC)


def fill(
    sessions: sessionmaker[Session], nights: int = NIGHTS, cases: int = CASES, *, environment: int = 1
) -> None:
    """A year of one job, mostly green."""
    chance = random.Random(0)
    with sessions.begin() as session:
        session.add(EnvironmentRecord(id=environment, fingerprint="e" * 64, details={"cpu": "Example 9000"}))
        session.flush()
        where = {"job": "nightly", "branch": "main", "tolerance": "default"}
        cells = [
            {"id": cell, "case": f"examples/case_{cell:03d}.py", "platform": f"a{1 + cell % 2}sim", **where}
            for cell in range(1, cases + 1)
        ]
        session.execute(insert(Cell), cells)
        for number in range(1, nights + 1):
            started = _START + timedelta(days=number)
            commit = f"{number:040x}"
            night = {
                "id": number,
                "job": "nightly",
                "ordinal": number,
                "started": started,
                "finished": started,
            }
            session.execute(
                insert(Night),
                [
                    {
                        **night,
                        "attempts": 1,
                        "heads": {"main": commit},
                        "host": "host",
                        "summary": {"notes": []},
                    }
                ],
            )
            results, runs = [], []
            for cell in range(1, cases + 1):
                failed = chance.random() < 0.03
                of_both = {"night_id": number, "cell_id": cell, "commit": commit, "content": commit}
                verdict = Verdict.MISMATCH if failed else Verdict.PASS
                results.append(
                    {**of_both, "status": Status.FLAKY if failed else Status.PASSED, "runs": 1 + 3 * failed}
                    | {"failures": int(failed), "verdict": verdict, "signature": None, "message": "as before"}
                )
                runs.append(
                    {**of_both, "run": 1, "started": started, "finished": started, "revisions": {}}
                    | {"verdict": verdict, "signature": None, "metrics": {}, "evidence": [], "device": 0}
                    | {
                        "host": "host",
                        "build_source": "cached",
                        "build_seconds": 0.1,
                        "environment_id": environment,
                    }
                    | {"run_seconds": chance.uniform(3, 5), "log": "/log"}
                )
            session.execute(insert(CaseResult), results)
            session.execute(insert(CaseRun), runs)


def main() -> None:
    """Make the store, build the site twice, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        sessions = open_store(sqlite_url(Path(folder) / "store.sqlite"))
        fill(sessions)
        for turn in ("first build", "again"):
            before = time.perf_counter()
            written = write_site(sessions, Path(folder) / "site")
            print(
                f"{turn}: {time.perf_counter() - before:.1f} s, {written.changed} of {written.pages} changed"
            )
        print(f"largest page: {written.largest}, {written.largest_bytes / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
