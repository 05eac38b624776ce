"""A made-up year of a team's nights: a green matrix with flakes, and incidents with their bisections."""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.engine.answer import Conclusion, EndRate, NamedCommit
from precision_bisect.bisect.history.questions import PinRecord
from precision_bisect.runner.stack import Case, CaseFlags, GitlinkPin, Platform, Repository, Stack, Step
from precision_bisect.store.bisections import (
    BisectionJournal,
    ProbeOutcome,
    ProbeStart,
    RangeCandidate,
    add_commits,
)
from precision_bisect.store.durable_files import write_document
from precision_bisect.store.tables import (
    CaseResultRow,
    CaseRunRow,
    CellRow,
    EnvironmentRow,
    IncidentRow,
    NightRow,
    RegressionRow,
)
from precision_bisect.store.vocabulary import (
    BisectionOutcome,
    BuildSource,
    CaseStatus,
    Commit,
    Evidence,
    Judgement,
    Phase,
    Seeks,
    TreeChange,
    Verdict,
)

START = datetime(2025, 1, 1, 2, tzinfo=UTC)
JOB = "nightly"
_CASES = (
    "add_rms_norm",
    "softmax",
    "flash_attention",
    "matmul_bf16",
    "layer_norm",
    "rope",
    "swiglu",
    "topk_gate",
    "moe_dispatch",
    "gelu",
)
_SUBJECTS = (
    "Fold casts into the store that follows them",
    "Choose tile sizes by the unified buffer's free bytes",
    "Reorder vector operations behind the last load",
    "Round to nearest even where the target can",
    "Share one scratch buffer between reductions",
    "Print the pass that rejected a kernel",
    "Widen accumulators of BF16 products",
    "Drop the unused second synchronization",
    "Bump the runtime submodule",
    "Docs: explain the dump levels",
)
_LINES = {
    Verdict.PASS: "[RUN] PASS (3.21s)",
    Verdict.MISMATCH: "Output(s) does not match golden: ['out'] max abs err 0.03125 at [3, 77]",
    Verdict.BUILD_ERROR: "legalize.cpp:212:9: error: no matching function for call to 'emit_cast'",
}
_JUDGED = {
    Verdict.PASS: Judgement.GOOD,
    Verdict.MISMATCH: Judgement.BAD,
    Verdict.BUILD_ERROR: Judgement.SKIP,
}
_ENVIRONMENT = {"cpu": "Example 9000", "tool cxx": "c++ 12.2", "package torch": "2.13.0", "variable CXX": ""}


def fill_nights(
    sessions: sessionmaker[Session], *, nights: int, cases: int, environment: int = 1, job: str = JOB
) -> None:
    """A year of one job, mostly green; `environment` is the id that its surroundings get."""
    chance = random.Random(0)
    with sessions.begin() as session:
        session.add(EnvironmentRow(id=environment, fingerprint="e" * 64, details=_ENVIRONMENT))
        session.flush()
        where = {"job": job, "branch": "main", "tolerance": "default"}
        cells = [
            {"id": cell, "case": case_name(cell), "platform": f"a{2 + 3 * (cell % 2)}sim", **where}
            for cell in range(1, cases + 1)
        ]
        session.execute(insert(CellRow), cells)
        add_commits(session, "pypto", [_of_night(number) for number in range(1, nights + 1)])
        for number in range(1, nights + 1):
            started = START + timedelta(days=number)
            commit = sha(f"night {number}")
            night = {"id": number, "job": job, "ordinal": number, "started": started, "finished": started}
            more = {"attempts": 1, "heads": {"main": commit}, "host": "host", "summary": {"notes": []}}
            session.execute(insert(NightRow), [night | more])
            results, runs = [], []
            for cell in range(1, cases + 1):
                failed = chance.random() < 0.03
                of_both = {"night_id": number, "cell_id": cell, "commit": commit, "content": commit}
                verdict = Verdict.MISMATCH if failed else Verdict.PASS
                results.append(
                    {
                        **of_both,
                        "status": CaseStatus.FLAKY if failed else CaseStatus.PASSED,
                        "runs": 1 + 3 * failed,
                    }
                    | {"failures": int(failed), "verdict": verdict, "signature": None}
                    | {"message": "failed 1 of 4 runs of one commit" if failed else "passed"}
                )
                runs.append(
                    {**of_both, "run": 1, "started": started, "finished": started, "revisions": {}}
                    | {"verdict": verdict, "signature": None, "metrics": {}, "evidence": [], "device": 0}
                    | {"host": "host", "build_source": "cached", "build_seconds": 0.1}
                    | {"environment_id": environment, "run_seconds": chance.uniform(3, 5), "log": "/log"}
                )
            session.execute(insert(CaseResultRow), results)
            session.execute(insert(CaseRunRow), runs)


def _changes(*files: str) -> tuple[TreeChange, ...]:
    return tuple(TreeChange(file, "100644", sha(file), "100644", sha(f"new {file}")) for file in files)


def _of_night(number: int) -> Commit:
    return Commit(
        sha=sha(f"night {number}"),
        parents=(sha(f"night {number - 1}"),),
        author="Wei Zhang",
        email="wei@example.com",
        date=START + timedelta(days=number, hours=-3),
        subject=_SUBJECTS[number % len(_SUBJECTS)],
        changes=_changes("src/ir/transforms/legalize_casts.cpp"),
    )


def case_name(cell: int) -> str:
    """A case's path; two cells share one, on two platforms."""
    number = (cell - 1) // 2
    more = f"_{number // len(_CASES)}" if number >= len(_CASES) else ""
    return f"examples/{_CASES[number % len(_CASES)]}{more}.py"


def fill_incidents(
    sessions: sessionmaker[Session], folder: Path, *, nights: int, cases: int, incidents: int, job: str = JOB
) -> None:
    """Incidents over the year, each of two cases and with its bisection; every other one closes after six nights.
    Reports, with their first divergent tensors, go to `folder`."""
    for number in range(1, incidents + 1):
        opened = max(1, nights * number // (incidents + 1)) if number < incidents else max(1, nights - 5)
        closed = opened + 6 if number % 2 and opened + 6 <= nights else None
        history = _History(number)
        journal = _bisect(sessions, folder, history, noisy=number % 3 == 0)
        with sessions.begin() as session:
            incident = IncidentRow(
                job=job,
                ordinal=number,
                repository="pypto",
                culprit=history.culprit,
                subject=history.subjects[history.at],
                confidence=0.9993,
                bisection_id=journal.bisection,
                opened_night_id=opened,
                closed_night_id=closed,
                fixed_by=sha(f"fix {number}") if closed else None,
            )
            session.add(incident)
            session.flush()
            for cell in {1 + (2 * number) % cases, 1 + (2 * number + 1) % cases}:
                regression = RegressionRow(
                    cell_id=cell,
                    opened_night_id=opened,
                    last_good=history.good,
                    first_bad=history.bad,
                    last_bad=history.bad,
                    bad_when="mismatch",
                    bisection_id=journal.bisection,
                    incident_id=incident.id,
                    recovered_night_id=closed,
                )
                session.add(regression)
                session.flush()
                for night in range(opened, closed or nights + 1):
                    status = CaseStatus.REGRESSED if night == opened else CaseStatus.KNOWN
                    session.execute(
                        update(CaseResultRow)
                        .where(CaseResultRow.night_id == night, CaseResultRow.cell_id == cell)
                        .values(
                            status=status,
                            regression_id=regression.id,
                            verdict=Verdict.MISMATCH,
                            failures=1,
                            runs=1,
                            message="mismatch (out: 96/512 differ)",
                        )
                    )


def sha(name: str) -> str:
    """A commit id for a name."""
    return hashlib.sha1(name.encode()).hexdigest()


class _History:
    """A line of commits, the last of which is bad."""

    def __init__(self, number: int, commits: int = 60) -> None:
        self.chance = random.Random(number)
        self.number = number
        self.good = sha(f"good {number}")
        self.commits = [sha(f"{number} {place}") for place in range(commits)]
        self.subjects = [self.chance.choice(_SUBJECTS) for _ in self.commits]
        self.at = self.chance.randrange(5, commits - 5)
        while self.subjects[self.at].startswith("Docs"):
            self.at += 1
        self.culprit, self.bad = self.commits[self.at], self.commits[-1]

    def described(self) -> Sequence[Commit]:
        return [
            Commit(
                sha=commit,
                parents=(self.commits[place - 1] if place else self.good,),
                author=self.chance.choice(("Ada Example", "Wei Zhang", "Jo Muster")),
                email="ada@example.com",
                date=START + timedelta(days=self.number, hours=place),
                subject=self.subjects[place],
                changes=_changes("src/ir/transforms/legalize_casts.cpp", "include/pypto/ir/cast.h"),
            )
            for place, commit in enumerate(self.commits)
        ]

    def candidates(self, described: Sequence[Commit]) -> Sequence[RangeCandidate]:
        """Commits of docs stand for what is before them."""
        rows: list[RangeCandidate] = []
        standing: str | None = None
        for commit in described:
            if not commit.subject.startswith("Docs"):
                standing = commit.sha
            content = _content(standing or self.good)
            rows.append(RangeCandidate(commit.sha, commit.parents, commit.subject, standing, content))
        return rows


def _content(commit: str) -> str:
    return hashlib.sha256(commit.encode()).hexdigest()


@dataclass
class _Runs:
    """Notes runs as a driver does."""

    journal: BisectionJournal
    stage: int
    history: _History
    noisy: bool
    runs: dict[str, int]

    def run(self, place: int, phase: Phase) -> Verdict:
        history = self.history
        commit = history.good if place < 0 else history.commits[place]
        fails = place >= history.at and (not self.noisy or history.chance.random() < 0.7)
        verdict = Verdict.MISMATCH if fails else Verdict.PASS
        if phase is Phase.SEARCH and history.chance.random() < 0.08:
            verdict = Verdict.BUILD_ERROR
        standing = place
        while standing >= 0 and history.subjects[standing].startswith("Docs"):
            standing -= 1
        content = _content(history.good if standing < 0 else history.commits[standing])
        self.runs[content] = self.runs.get(content, 0) + 1
        key = ProbeStart(
            stage=self.stage,
            phase=phase,
            repository="pypto",
            commit=commit,
            revisions={"pypto": commit, "simpler": sha("pinned"), "pypto-lib": sha("cases")},
            content=content,
            run=self.runs[content],
        )
        self.journal.probes.finish(self.journal.probes.start(key), self._row(verdict))
        return verdict

    def _row(self, verdict: Verdict) -> ProbeOutcome:
        error = {Verdict.PASS: 2e-4, Verdict.MISMATCH: 0.03}.get(verdict, 0.0) * self.history.chance.uniform(
            0.7, 1.3
        )
        failed = verdict is Verdict.MISMATCH
        metrics = {"out": {"max_abs_err": error, "mismatched": 96.0 * failed}}
        return ProbeOutcome(
            verdict=verdict,
            judgement=_JUDGED[verdict],
            signature="out: 96/512 differ" if failed else None,
            metrics={} if verdict is Verdict.BUILD_ERROR else metrics,
            exit_code=int(verdict is not Verdict.PASS),
            evidence=[Evidence(stream="stdout", line=41, text=_LINES[verdict], why="printed")],
            build_key=None if verdict is Verdict.BUILD_ERROR else "0" * 64,
            build_source=BuildSource.BUILT,
            build_seconds=self.history.chance.uniform(90, 240),
            build_steps={"pypto": 90.0},
            run_seconds=self.history.chance.uniform(3, 5),
            fingerprint="f" * 64,
            environment=_ENVIRONMENT,
            slot=0,
            host="builder-3",
            command=(
                "/slot/venv/bin/python",
                "/slot/pypto-lib/examples/softmax.py",
                "--golden-data",
                "/golden",
            ),
            artifacts={"log": ("/home/probes/run.log.gz", 10)},
        )


def _bisect(
    sessions: sessionmaker[Session], folder: Path, history: _History, *, noisy: bool
) -> BisectionJournal:
    name = f"{START + timedelta(days=history.number):%Y%m%d}-040000-{history.number:04x}"
    request = _request(folder / name, history)
    journal = BisectionJournal.begin(
        sessions,
        name=name,
        repository="pypto",
        good=history.good,
        bad=history.bad,
        request=write_document(request),
    )
    described = history.described()
    good = Commit(
        sha=history.good,
        parents=(),
        author="Ada Example",
        email="ada@example.com",
        date=START,
        subject="Release 0.9",
        changes=(),
    )
    journal.commits.add("pypto", [good, *described])
    stage = journal.stages.record(
        ordinal=1,
        repository="pypto",
        seeks=Seeks.REGRESSION,
        old=history.good,
        new=history.bad,
        held={},
        candidates=history.candidates(described),
    )
    _search(_Runs(journal, stage, history, noisy, {}), history)
    culprit = NamedCommit(
        repository="pypto",
        commit=history.culprit,
        parent=history.commits[history.at - 1],
        confidence=0.9993,
        merge=False,
    )
    conclusion = Conclusion(
        outcome=BisectionOutcome.CULPRIT,
        message=f"pypto {history.culprit} introduced it",
        culprits=(culprit,),
        rates=(
            EndRate(end="good", commit=history.good, runs=3, failures=0),
            EndRate(end="bad", commit=history.bad, runs=3, failures=3),
        ),
        pins=(
            PinRecord(
                name="simpler",
                holder="pypto",
                path="runtime",
                value_good=sha("pinned"),
                value_bad=sha("pinned"),
                searched=True,
            ),
        ),
    )
    journal.conclude(conclusion.outcome, write_document(conclusion))
    request.output.mkdir(parents=True)
    (request.output / "divergence.json").write_text(json.dumps(_divergence()))
    return journal


def _search(runs: _Runs, history: _History) -> None:
    """Ends, halving, and both sides of the culprit again."""
    for _ in range(3):
        runs.run(-1, Phase.ENDPOINT)
        runs.run(len(history.commits) - 1, Phase.ENDPOINT)
    good, bad = -1, len(history.commits) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        verdicts = {runs.run(middle, Phase.SEARCH) for _ in range(4 if runs.noisy else 1)}
        if Verdict.MISMATCH in verdicts or middle >= history.at:
            bad = middle
        else:
            good = middle
    for _ in range(6 if runs.noisy else 2):
        runs.run(history.at - 1, Phase.CONFIRM)
        runs.run(history.at, Phase.CONFIRM)


def _request(output: Path, history: _History) -> BisectRequest:
    root = Path("checkouts")
    stack = Stack(
        name="pypto",
        searched="pypto",
        repositories={
            "pypto": Repository(path=root / "pypto"),
            "simpler": Repository(path=root / "pypto/runtime"),
            "pypto-lib": Repository(path=root / "pypto-lib"),
        },
        pins={"simpler": GitlinkPin(kind="gitlink", holder="pypto", path="runtime", target="simpler")},
        steps={"pypto": Step(command=("make", "-C", "{pypto}"), inputs=("pypto",))},
        case=Case(
            repository="pypto-lib",
            command=("{python}", "{case}", "-p", "{platform}", "-d", "{device}"),
            cwd="{slot}",
            flags=CaseFlags(golden_data=("--golden-data",)),
        ),
        platforms={"a2sim": Platform(), "a5sim": Platform()},
    )
    return BisectRequest(
        stack=stack,
        repository="pypto",
        fixed={},
        good=history.good,
        bad=history.bad,
        case=case_name(1 + 2 * history.number),
        platform="a5sim",
        device=0,
        bad_when="mismatch",
        golden_data=None,
        timeout=None,
        confidence=0.99,
        output=output,
    )


def _divergence() -> dict[str, Any]:
    statistics = {
        "dtype": "bfloat16",
        "shape": [32, 512],
        "elements": 16384,
        "different": 96,
        "max_error": 0.03125,
        "max_ulps": 4,
        "nan": 0,
        "inf": 0,
        "rows": 32,
        "rows_different": 9,
        "first_rows_different": [3, 4, 5],
        "heat": {
            "rows": 32,
            "columns": 512,
            "row_step": 1,
            "column_step": 16,
            "wrong": [
                [
                    round(0.06 * (1 + (i * j) % 7), 2) if i >= 24 or (i, j) == (3, 4) else 0.0
                    for j in range(32)
                ]
                for i in range(32)
            ],
            "wild": [[int((i, j) == (27, 9)) for j in range(32)] for i in range(32)],
        },
    }
    first = {
        "task_id": "0x0000000000000007",
        "kernel": "softmax_reduce",
        "kernel_sources": ["kernels/aiv/softmax_reduce.cpp"],
        "orchestration_source": "orchestration/softmax.cpp",
        "orchestration_lines": [88],
        "argument": 2,
        "tensor": "row_sum",
        "reason": "its inputs are equal in both builds, its output is not",
        "pattern": {
            "name": "last row tile",
            "confidence": 0.93,
            "evidence": "all wrong rows are in one tile of 8",
        },
        "statistics": statistics,
    }
    return {"failing_build": "/home/bisections/probes/0031/build", "first_divergent": [first]}
