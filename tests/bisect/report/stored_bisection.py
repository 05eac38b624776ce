"""Bisections put into a store by hand, with the journal that a driver uses."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.report.basis import Rows, load_rows
from precision_bisect.bisect.report.model import Report
from precision_bisect.bisect.report.report_builder import make_report
from precision_bisect.runner.stack import Case, CaseFlags, GitlinkPin, Platform, Repository, Stack, Step
from precision_bisect.store.bisections import BisectionJournal, ProbeOutcome, ProbeStart, RangeCandidate
from precision_bisect.store.database import sqlite_url
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.vocabulary import (
    BuildSource,
    Commit,
    Evidence,
    Judgement,
    Phase,
    Seeks,
    TreeChange,
    Verdict,
)
from tests.support.stores import new_store

JUDGEMENTS = {Verdict.PASS: Judgement.GOOD, Verdict.MISMATCH: Judgement.BAD}
Revisions = Callable[[str], Mapping[str, str] | None]
ENVIRONMENT = {"cpu": "Example 9000", "tool cxx": "c++ 12.2", "variable CXX": ""}


def sha(name: str) -> str:
    """A commit id for a name."""
    return hashlib.sha1(name.encode()).hexdigest()


def changed(*files: str) -> tuple[TreeChange, ...]:
    """Files that a commit changes."""
    return tuple(TreeChange(file, "100644", sha(file), "100644", sha(f"new {file}")) for file in files)


def described(
    name: str, parents: Sequence[str], *, files: Sequence[str] | None = None, **fields: Any
) -> Commit:
    """A commit by its name."""
    row: dict[str, Any] = {
        "sha": sha(name),
        "parents": tuple(sha(parent) for parent in parents),
        "author": "Ada Example",
        "email": "ada@example.com",
        "date": datetime(2026, 3, 4, 12, tzinfo=UTC),
        "subject": f"Subject of {name}",
        "changes": changed(*((f"src/{name}.py",) if files is None else files)),
    }
    return Commit(**(row | fields))


def two_repositories(root: Path) -> Stack:
    """A compiler with a runtime in it, and a library of cases."""
    return Stack(
        name="example",
        searched="compiler",
        repositories={
            "compiler": Repository(path=root / "compiler"),
            "runtime": Repository(path=root / "compiler/runtime"),
            "cases": Repository(path=root / "cases"),
        },
        pins={"runtime": GitlinkPin(kind="gitlink", holder="compiler", path="runtime", target="runtime")},
        steps={"runtime": Step(command=("make", "-C", "{runtime}", "-j{jobs}"), inputs=("runtime",))},
        case=Case(
            repository="cases",
            command=("{python}", "{case}", "-p", "{platform}", "-d", "{device}"),
            cwd="{slot}",
            flags=CaseFlags(golden_data=("--golden-data",)),
        ),
        platforms={"a2a3sim": Platform()},
    )


def pinned_revisions(commit: str) -> dict[str, str]:
    """What is checked out at a commit of the compiler, all of which pin the same runtime."""
    return {"compiler": commit, "runtime": sha("pinned"), "cases": sha("cases")}


def content_key(revisions: Mapping[str, str]) -> str:
    """A key of what is checked out."""
    return hashlib.sha256(" ".join(sorted(revisions.values())).encode()).hexdigest()


class StoredBisection:
    """One bisection in a store of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        stack: Stack | None = None,
        repository: str = "compiler",
        good: str,
        bad: str,
        case: str | None = "examples/softmax.py",
        name: str = "20260304-120000-beef",
        seeks: Seeks = Seeks.REGRESSION,
    ) -> None:
        self.folder = folder
        self.url = sqlite_url(folder / "store.sqlite")
        self.sessions = new_store(folder / "store.sqlite")
        self.name = name
        self.request = BisectRequest(
            stack=stack or two_repositories(folder),
            repository=repository,
            fixed={},
            good=good,
            bad=bad,
            case=case,
            platform="a2a3sim",
            device=0,
            bad_when="mismatch",
            golden_data=None,
            timeout=None,
            confidence=0.99,
            output=folder / "report",
            seeks=seeks,
        )
        self.journal = BisectionJournal.begin(
            self.sessions,
            name=self.name,
            repository=repository,
            good=good,
            bad=bad,
            request=write_document(self.request),
        )
        self._runs: dict[str, int] = {}
        self._stages = 0

    def stage(
        self,
        candidates: Sequence[tuple[Commit, str | None]],
        *,
        good: str,
        bad: str,
        repository: str = "compiler",
        held: Mapping[str, str] | None = None,
        revisions: Revisions | None = None,
    ) -> int:
        """Note a range; `revisions` gives what is checked out at a commit, None where it pins nothing."""
        at = revisions or pinned_revisions

        def content(commit: str) -> str | None:
            whole = at(commit)
            return None if whole is None else content_key(whole)

        self._stages += 1
        self.journal.commits.add(repository, [row for row, _ in candidates])
        return self.journal.stages.record(
            ordinal=self._stages,
            repository=repository,
            seeks=self.request.seeks,
            old=good,
            new=bad,
            held=held or {},
            candidates=[
                RangeCandidate(
                    sha=row.sha,
                    parents=row.parents,
                    subject=row.subject,
                    representative=standing,
                    content=content(row.sha if standing is None else standing),
                )
                for row, standing in candidates
            ],
        )

    def probe(
        self,
        stage: int,
        commit: str,
        verdict: Verdict,
        *,
        phase: Phase = Phase.SEARCH,
        repository: str = "compiler",
        revisions: Mapping[str, str] | None = None,
        content: str | None = None,
        **changes: Any,
    ) -> int:
        """Start a probe and finish it; its ordinal."""
        ordinal = self.start(
            stage, commit, phase=phase, repository=repository, revisions=revisions, content=content
        )
        judgement = JUDGEMENTS.get(verdict, Judgement.SKIP)
        row: dict[str, Any] = {
            "verdict": verdict,
            "judgement": judgement,
            "signature": "out: 3/512 differ" if judgement is Judgement.BAD else None,
            "metrics": {"out": {"mismatched": 3.0}} if judgement is Judgement.BAD else {},
            "exit_code": 0 if judgement is Judgement.GOOD else 1,
            "evidence": [Evidence(stream="stdout", line=7, text=f"[RUN] {verdict}", why="printed")],
            "build_key": "0" * 64,
            "build_source": BuildSource.BUILT,
            "build_seconds": 2.0,
            "build_steps": {"runtime": 2.0},
            "run_seconds": 0.5,
            "fingerprint": "f" * 64,
            "environment": ENVIRONMENT,
            "slot": 0,
            "host": "machine",
            "command": (
                "/slot/venv/bin/python",
                "/slot/cases/examples/softmax.py",
                "--golden-data",
                "/golden",
            ),
            "artifacts": {
                "log": (f"/home/probes/{ordinal}/run.log.gz", 10),
                "build_directory": (f"/home/probes/{ordinal}/build", 10),
                "golden_data": ("/home/golden/5650", 10),
            },
        }
        self.journal.probes.finish(ordinal, ProbeOutcome(**(row | changes)))
        return ordinal

    def start(
        self,
        stage: int,
        commit: str,
        *,
        phase: Phase = Phase.SEARCH,
        repository: str = "compiler",
        revisions: Mapping[str, str] | None = None,
        content: str | None = None,
    ) -> int:
        """Start a probe, as a driver does that is then killed."""
        whole = revisions or pinned_revisions(commit)
        key = content or content_key(whole)
        self._runs[key] = self._runs.get(key, 0) + 1
        return self.journal.probes.start(
            ProbeStart(
                stage=stage,
                phase=phase,
                repository=repository,
                commit=commit,
                revisions=whole,
                content=key,
                run=self._runs[key],
            )
        )

    def conclude(self, conclusion: Conclusion) -> None:
        """Note the answer."""
        self.journal.conclude(conclusion.outcome, write_document(conclusion))

    def rows(self) -> Rows:
        """What the store holds of it."""
        with self.sessions() as session:
            return load_rows(session, self.name)

    def report(self) -> Report:
        """The report, from the store."""
        return make_report(self.rows())
