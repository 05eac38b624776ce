"""Ends as git takes them, and as people name them: several good ones, other branches, dates, shallow clones."""

import json
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.support.quick import quick_first
from tests.system.questions.test_predicate import found, run

CHECK = "! grep -rq wrong --include=*.txt ."


def bisect(repository: TestRepository, folder: Path, *options: str):
    words = [*options, "-o", str(folder / "out"), "--", "sh", "-c", CHECK]
    return run(repository.path, folder / "home", *words)


def ran(folder: Path) -> set[str]:
    """The commits that were run."""
    report = json.loads((folder / "out" / "report.json").read_text())
    return {probe["commit"] for probe in report["probes"]}


@pytest.mark.long
def test_all_good_ends_count(repository: TestRepository, tmp_path: Path) -> None:
    """What a good side branch holds is no candidate, although only the main line's good end is run."""
    root = repository.commit("root", {"root.txt": "fine"})
    repository.git("checkout", "--quiet", "-b", "side")
    side = [repository.commit(f"side {n}", {f"side{n}.txt": "fine"}) for n in range(4)]
    repository.git("checkout", "--quiet", "main")
    repository.commit("trunk", {"trunk.txt": "fine"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    culprit = repository.commit("breaks", {"broken.txt": "wrong"})
    repository.commit("later", {"later.txt": "fine"})
    done = bisect(repository, tmp_path, "--good", root, "--good", side[3], "--bad", "main")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == culprit
    assert not ran(tmp_path) & set(side[:3])
    assert "its ancestors are no candidates" in done.stdout
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{culprit} is the first bad commit" in replayed


def fork(repository: TestRepository, *, fixed_there: bool) -> dict[str, str]:
    """A good end on a branch beside that of the bad one."""
    base = repository.commit("base", {"state.txt": "wrong" if fixed_there else "fine"})
    repository.git("checkout", "--quiet", "-b", "beside")
    beside = repository.commit("beside", {"state.txt": "fine", "beside.txt": "1"})
    repository.git("checkout", "--quiet", "main")
    commits = [
        repository.commit(f"main {n}", {f"m{n}.txt": "wrong" if n == 2 and not fixed_there else "fine"})
        for n in range(5)
    ]
    return {"base": base, "good": beside, "culprit": commits[2], "bad": commits[4]}


@pytest.mark.long
def test_the_merge_base_is_run_for_a_good_end_on_another_branch(
    repository: TestRepository, tmp_path: Path
) -> None:
    named = fork(repository, fixed_there=False)
    done = bisect(repository, tmp_path, "--good", "beside", "--bad", "main")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == named["culprit"]
    assert named["base"] in ran(tmp_path)
    assert named["good"] not in ran(tmp_path)
    assert f"{named['base'][:12]}, their merge base, is run as the old end instead" in done.stderr
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{named['culprit']} is the first bad commit" in replayed


@pytest.mark.long
def test_a_merge_base_that_fails_was_fixed_on_the_good_side(
    repository: TestRepository, tmp_path: Path
) -> None:
    named = fork(repository, fixed_there=True)
    done = bisect(repository, tmp_path, "--good", "beside", "--bad", "main")
    assert done.returncode == 4, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"the failure was fixed on the side of {named['good'][:12]}" in line
    assert f"\nthe merge base {named['base'][:12]}, run as the good end: exit code 1 in " in done.stderr
    for untrue in (
        "to check:",
        "does the command build",
        "name an older --good",
        "the good end fails",
        f"good {named['base'][:12]}",
    ):
        assert untrue not in done.stdout + done.stderr
    advice = line.split("ask with ")[1].split()
    done = bisect(repository, tmp_path, *advice)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == named["good"]


@pytest.mark.long
def test_a_merge_base_that_cannot_be_judged_leaves_the_answer_unknown(
    repository: TestRepository, tmp_path: Path
) -> None:
    named = fork(repository, fixed_there=False)
    check = "test -e beside.txt -o -e m0.txt || exit 125; " + CHECK
    done = run(
        repository.path, tmp_path / "home", "--good", "beside", "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", check,
    )  # fmt: skip
    assert done.returncode == 6, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: the merge base {named['base'][:12]} of good {named['good'][:12]} and bad")
    assert "cannot be judged (exit code 125): on which side the change lies is unknown" in line
    assert "--resume" in done.stderr


@pytest.mark.parametrize("first", quick_first(["fine", "faulty"]))
def test_of_several_merge_bases_one_that_fails_was_fixed_on_the_good_side(
    repository: TestRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Whichever is run as the end: git runs them all, and says so too."""
    repository.commit("root", {"root.txt": "fine"})
    bases: dict[str, str] = {}
    for hour, (name, state) in enumerate([("fine", "fine"), ("faulty", "wrong")]):
        monkeypatch.setenv(
            "GIT_COMMITTER_DATE", f"2026-06-01T{12 + hour if first == 'fine' else 15 - hour}:00:00Z"
        )
        repository.git("checkout", "--quiet", "-b", name, "main")
        bases[name] = repository.commit(name, {f"{name}.txt": state})
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    repository.git("checkout", "--quiet", "-b", "mended", "faulty")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "fine")
    good = repository.commit("mends", {"faulty.txt": "fine"})
    repository.git("checkout", "--quiet", "-b", "failing", "fine")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", bases["faulty"])
    repository.commit("later", {"later.txt": "fine"})
    done = bisect(repository, tmp_path, "--good", "mended", "--bad", "failing")
    assert done.returncode == 4, done.stderr
    assert "the ends have several merge bases" in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"ask with --find-fix --bad {bases['faulty']} --good {good}" in line


@pytest.fixture
def dated(repository: TestRepository, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A commit each noon from the first of June 2026 on; the eighth breaks it."""
    monkeypatch.setenv("TZ", "UTC")
    commits: list[str] = []
    for day in range(1, 13):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-06-{day:02d}T12:00:00Z")
        commits.append(repository.commit(f"day {day}", {f"{day}.txt": "wrong" if day == 8 else "fine"}))
    return commits


@pytest.mark.long
def test_ends_by_date(repository: TestRepository, dated: list[str], tmp_path: Path) -> None:
    done = bisect(repository, tmp_path, "--good", "2026-06-05", "--bad", "main@{2026-06-10 13:00}")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == dated[7]
    assert (
        f"--good 2026-06-05: {dated[3][:12]} of 2026-06-04 12:00 UTC behind the later end, day 4"
        in done.stderr
    )
    assert (
        f"--bad main@{{2026-06-10 13:00}}: {dated[9][:12]} of 2026-06-10 12:00 UTC on main, day 10"
        in done.stderr
    )
