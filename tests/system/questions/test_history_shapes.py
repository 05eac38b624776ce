"""Histories that are no line: octopus and criss-cross merges, and what first parents lead to."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

pytestmark = pytest.mark.long

CHECK = "! grep -rq wrong --include=*.txt ."


def bisect(
    repository: TestRepository, folder: Path, good: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    return run(
        repository.path, folder / "home", "--good", good, "--bad", "main", "-o", str(folder / "out"), *options,
        "--", "sh", "-c", CHECK,
    )  # fmt: skip


def branch(repository: TestRepository, name: str, *, broken_at: int | None = None) -> list[str]:
    """Three commits on a new branch off the root; the commit that is broken writes `wrong`."""
    repository.git("checkout", "--quiet", "-b", name, "root")
    texts = ["wrong" if number == broken_at else "fine" for number in range(3)]
    return [repository.commit(f"{name} {n}", {f"{name}{n}.txt": text}) for n, text in enumerate(texts)]


@pytest.mark.parametrize("broken", ["main-side", "a", "b"])
def test_an_octopus_merge(repository: TestRepository, tmp_path: Path, broken: str) -> None:
    good = repository.commit("root", {"root.txt": "fine"})
    repository.git("tag", "root")
    commits = {
        name: branch(repository, name, broken_at=1 if name == broken else None)
        for name in ("main-side", "a", "b")
    }
    repository.git("checkout", "--quiet", "main")
    repository.commit("trunk", {"trunk.txt": "fine"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "octopus", "main-side", "a", "b")
    done = bisect(repository, tmp_path, good)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == commits[broken][1]


def test_a_criss_cross_merge(repository: TestRepository, tmp_path: Path) -> None:
    good = repository.commit("root", {"root.txt": "fine"})
    repository.git("tag", "root")
    left = branch(repository, "left")
    right = branch(repository, "right", broken_at=2)
    repository.git("checkout", "--quiet", "left")
    repository.git("merge", "--quiet", "--no-ff", "-m", "right into left", right[1])
    repository.git("checkout", "--quiet", "right")
    repository.git("merge", "--quiet", "--no-ff", "-m", "left into right", left[1])
    repository.git("checkout", "--quiet", "left")
    repository.git("merge", "--quiet", "--no-ff", "-m", "cross", "right")
    repository.git("branch", "--force", "main", "left")
    done = bisect(repository, tmp_path, good)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == right[2]


@pytest.mark.parametrize("broken", ["after the merge", "in the other history"])
def test_a_history_of_its_own_lacks_what_the_check_needs(
    repository: TestRepository, tmp_path: Path, broken: str
) -> None:
    """A subtree merge: each commit of the other history fails for want of the file, from its root on."""
    good = repository.commit("root", {"lib/value": "ok", "own.txt": "1"})
    trunk = repository.git("symbolic-ref", "--short", "HEAD")
    repository.commit("trunk", {"own.txt": "2"})
    repository.git("checkout", "--quiet", "--orphan", "other")
    repository.git("rm", "-rq", "--cached", ".")
    for path in ("lib/value", "own.txt"):
        (repository.path / path).unlink()
    for number in range(3):
        text = "bad" if broken == "in the other history" and number >= 1 else "ok"
        repository.commit(f"other {number}", {"value": text, "n": str(number)})
    repository.git("checkout", "--quiet", trunk)
    if broken == "in the other history":
        repository.git("rm", "-q", "lib/value")
    place = "lib/" if broken == "in the other history" else "tool/"
    repository.git("read-tree", f"--prefix={place}", "other")
    tree = repository.git("write-tree")
    merge = repository.git("commit-tree", tree, "-p", "HEAD", "-p", "other", "-m", "subtree")
    repository.git("reset", "--quiet", "--hard", merge)
    later = [
        repository.commit(
            f"later {number}",
            {"own.txt": f"later {number}"}
            | ({"lib/value": "bad"} if number == 1 and broken == "after the merge" else {}),
        )
        for number in range(3)
    ]
    done = run(
        repository.path, tmp_path / "home", "--good", good, "--bad", trunk, "-o", str(tmp_path / "out"),
        "--", "sh", "-c", "grep -qs ok lib/value || { echo FAILED: value; exit 1; }",
    )  # fmt: skip
    if broken == "after the merge":
        assert done.returncode == 0, done.stderr
        assert found(tmp_path / "out") == later[1]
        return
    assert done.returncode == 6, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["culprits"], [each["commit"] for each in report["suspects"]]) == ([], [merge])


def test_first_parents_end_at_the_merge(repository: TestRepository, tmp_path: Path) -> None:
    good = repository.commit("root", {"root.txt": "fine"})
    repository.git("tag", "root")
    branch(repository, "side", broken_at=1)
    repository.git("checkout", "--quiet", "main")
    repository.commit("trunk", {"trunk.txt": "fine"})
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge side", "side")
    merge = repository.git("rev-parse", "HEAD")
    repository.commit("later", {"later.txt": "fine"})
    done = bisect(repository, tmp_path, good, "--first-parent")
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == merge
    replayed = repository.git("bisect", "replay", str(tmp_path / "out" / "bisect.log"))
    assert f"{merge} is the first bad commit" in replayed
    assert "not each of its parents was run: the change may be in a commit that it merges" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    (culprit,) = report["culprits"]
    assert (culprit["merge"], culprit["joins"]) == (True, False)
    assert "Its parent failed in 0 of " in report["confidence_basis"]["text"]


def test_a_merge_of_two_good_branches_is_an_interaction(repository: TestRepository, tmp_path: Path) -> None:
    good = repository.commit("root", {"root.txt": "fine"})
    repository.git("tag", "root")
    branch(repository, "left")
    branch(repository, "right")
    repository.git("checkout", "--quiet", "left")
    repository.git("merge", "--quiet", "--no-ff", "-m", "both", "right")
    both = repository.git("rev-parse", "HEAD")
    repository.git("branch", "--force", "main", "left")
    done = run(
        repository.path, tmp_path / "home", "--good", good, "--bad", "main", "-o", str(tmp_path / "out"),
        "--", "sh", "-c", "[ ! -f left2.txt ] || [ ! -f right2.txt ]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == both
    assert "the change is in joining them" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    changed = {file["path"] for file in report["culprits"][0]["diff"]["files"]}
    assert changed == {*repository.git("diff", "--name-only", f"{both}^1", both).splitlines()}
    assert "What it changes, against its first parent:" in (tmp_path / "out" / "report.md").read_text()


def test_what_reads_the_same_is_run_and_counted_once_and_named(
    repository: TestRepository, tmp_path: Path
) -> None:
    """The culprit's parent changes nothing, and neither does the merge that joins its branch to what it began at."""
    good = repository.commit("root", {"root.txt": "fine"})
    repository.git("tag", "root")
    before = branch(repository, "side")[2]
    parent = repository.commit("empty", {})
    culprit = repository.commit("breaks", {"side.txt": "wrong"})
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge side", "side")
    merge = repository.git("rev-parse", "HEAD")
    done = bisect(repository, tmp_path, good)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [each["commit"] for each in report["culprits"]] == [culprit]
    runs = {run["ordinal"]: probe["commit"] for probe in report["probes"] for run in probe["runs"]}
    assert not {parent, merge} & {*runs.values()}
    assert {each["commit"]: each["same_as"] for each in report["collapsed"]} == {
        parent: before,
        merge: culprit,
    }
    basis = report["confidence_basis"]
    parts = ("culprit", "parents", "others", "ends")
    assert sum(basis[part]["runs"] for part in parts) == len(runs)
    ordinals = [str(ordinal) for ordinal, commit in runs.items() if commit == before]
    made = (
        f"run{'s' if len(ordinals) > 1 else ''} {', '.join(ordinals)} of {before[:12]}, which reads the same"
    )
    parents = f"0 of {len(ordinals)} run{'s' if len(ordinals) > 1 else ''}"
    assert f"Its parent failed in {parents} ({made})." in basis["text"]
    # The bad end is the merge, and the run of the culprit one of it.
    ends = [(rate["commit"], rate["runs"], rate["failures"]) for rate in report["rates"]]
    assert ends == [(good, 1, 0), (merge, 1, 1)]
    told = f"- bad end `{merge[:12]}`: failed in 1 of 1 run"
    assert told in (tmp_path / "out" / "report.md").read_text()
    home, pages = tmp_path / "home", tmp_path / "pages"
    assert run(repository.path, home, "report", "--html", str(pages)).returncode == 0
    (page,) = (pages / "bisections").rglob("*.html")
    assert page.read_text().count('<a class="cell') == len(runs)
