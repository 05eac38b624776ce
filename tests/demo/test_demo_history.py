"""The demo's histories: real git says that they are sound, and real runs say that their truth is true."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from precision_bisect.demo.layout import MIN_COMMITS
from precision_bisect.demo.make import DemoError, Truth, make_demo
from precision_bisect.demo.scenarios import SETTINGS, Scenario

COMMITS, SEED = 40, 3
QUIET_PLACES = ("docs/", "tests/", ".github/")
DETERMINISTIC = [scenario for scenario in Scenario if scenario not in (Scenario.QUIET, Scenario.DROPPED_DEP)]

MakeStack = Callable[[Scenario], "Stack"]


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Stack:
    root: Path
    truth: Truth

    @property
    def minipto(self) -> Path:
        return self.root / "minipto"

    @property
    def minirt(self) -> Path:
        return self.root / "minirt"

    def commits(self) -> list[str]:
        """Commits that a bisection searches, oldest first."""
        span = f"{self.truth.good}..{self.truth.bad}"
        return git(self.minipto, "rev-list", "--reverse", "--topo-order", span).split()

    def first(self, subject: str) -> str:
        """The oldest commit of the span whose subject begins so."""
        span = f"{self.truth.good}..{self.truth.bad}"
        found = git(self.minipto, "log", "--reverse", "--format=%H %s", span).splitlines()
        return next(line.split()[0] for line in found if line.partition(" ")[2].startswith(subject))


def stack_at(root: Path, scenario: Scenario, *, commits: int = COMMITS, seed: int = SEED) -> Stack:
    return Stack(root, make_demo(root, scenario=scenario, commits=commits, seed=seed))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> MakeStack:
    return cache(lambda scenario: stack_at(tmp_path_factory.mktemp(scenario), scenario))


def parents(repository: Path, commit: str) -> list[str]:
    return git(repository, "rev-parse", f"{commit}^@").split()


def gitlink(stack: Stack, commit: str) -> str:
    return git(stack.minipto, "rev-parse", f"{commit}:runtime").strip()


def files(repository: Path, commit: str) -> dict[str, str]:
    """Path and blob of every file of a commit, submodules aside."""
    lines = git(repository, "ls-tree", "-r", "--format=%(objecttype) %(objectname) %(path)", commit)
    entries = [line.split(" ", 2) for line in lines.splitlines()]
    return {path: blob for kind, blob, path in entries if kind == "blob"}


# -- the shape ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [MIN_COMMITS, 41, 150])
def test_asked_number_of_commits_lies_between_the_ends(tmp_path: Path, commits: int) -> None:
    stack = stack_at(tmp_path / "d", Scenario.TAIL, commits=commits)
    assert len(stack.commits()) == commits
    git(stack.minipto, "merge-base", "--is-ancestor", stack.truth.good, stack.truth.bad)
    assert git(stack.minipto, "rev-parse", "main").strip() == stack.truth.bad


def test_same_arguments_give_same_commits_and_another_seed_gives_others(tmp_path: Path) -> None:
    one, two = (stack_at(tmp_path / name, Scenario.RUNTIME_BUMP) for name in "ab")
    script = (
        "import sys; from pathlib import Path; from precision_bisect.demo.make import *\n"
        f"make_demo(Path(sys.argv[1]), scenario=Scenario.RUNTIME_BUMP, commits={COMMITS}, seed={SEED})"
    )
    hashing = {**os.environ, "PYTHONHASHSEED": "7"}  # the order of sets must not show
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "h")], env=hashing, check=True)
    assert (tmp_path / "h" / "truth.json").read_text() == one.truth.to_json()
    other = stack_at(tmp_path / "c", Scenario.RUNTIME_BUMP, seed=SEED + 1)
    assert one.truth == two.truth
    for repository in ("minipto", "minirt", "minilib"):
        heads = [git(s.root / repository, "rev-parse", "main") for s in (one, two, other)]
        assert heads[0] == heads[1] != heads[2]


def test_history_looks_like_a_real_one(tmp_path: Path) -> None:
    stack = stack_at(tmp_path / "d", Scenario.ROUNDING, commits=200)
    commits = stack.commits()
    merges = [commit for commit in commits if len(parents(stack.minipto, commit)) == 2]
    assert 0.05 < len(merges) / len(commits) < 0.15

    quiet = 0
    for commit in set(commits) - set(merges):
        changed = git(stack.minipto, "diff-tree", "--no-commit-id", "--name-only", "-r", commit).split()
        assert changed
        quiet += all(path.startswith(QUIET_PLACES) for path in changed)
    assert 0.2 < quiet / len(commits) < 0.3

    log = git(stack.minipto, "log", "--reverse", "--topo-order", "--format=%at %ct %ae").splitlines()
    times = [int(line.split()[0]) for line in log]
    assert max(times) - min(times) > 150 * 24 * 3600
    assert len({line.split()[2] for line in log}) >= 4
    assert all(line.endswith("@example.com") for line in log)
    for commit in commits:
        born, *before = (
            int(git(stack.minipto, "show", "-s", "--format=%ct", c))
            for c in (commit, *parents(stack.minipto, commit))
        )
        assert all(time < born for time in before)


def test_repositories_are_sound_and_clean(stack: MakeStack) -> None:
    made = stack(Scenario.RUNTIME_BUMP)
    for repository in (made.minipto, made.minirt, made.root / "minilib", made.minipto / "runtime"):
        git(repository, "fsck", "--strict", "--full")
        assert git(repository, "status", "--porcelain", "--ignored") == ""
    assert git(made.minipto, "symbolic-ref", "--short", "HEAD").strip() == "main"
    assert git(made.minipto, "submodule", "status").startswith(f" {gitlink(made, 'main')} runtime")
    assert git(made.minipto, "config", "-f", ".gitmodules", "submodule.minirt.url").strip() == "../minirt"


def test_every_commit_checks_out_and_its_gitlink_resolves(stack: MakeStack, tmp_path: Path) -> None:
    made = stack(Scenario.RUNTIME_BUMP)
    git(tmp_path, "clone", "--quiet", "--shared", str(made.minipto), "clone")
    links: dict[str, str] = {}
    for commit in git(made.minipto, "rev-list", "--reverse", "--topo-order", "main").split():
        git(tmp_path / "clone", "checkout", "--quiet", "--detach", commit)
        assert git(tmp_path / "clone", "status", "--porcelain") == ""
        links[commit] = gitlink(made, commit)
        for parent in parents(made.minipto, commit):
            git(made.minirt, "merge-base", "--is-ancestor", links[parent], links[commit])
    assert len(set(links.values())) >= 3


def test_merges_are_the_ones_git_makes(stack: MakeStack, tmp_path: Path) -> None:
    made = stack(Scenario.FIXED_AND_BROKEN)
    git(tmp_path, "clone", "--quiet", "--shared", str(made.minipto), "clone")
    merges = git(made.minipto, "rev-list", "--merges", "main").split()
    assert merges
    for merge in merges:
        first, second = parents(made.minipto, merge)
        git(tmp_path / "clone", "checkout", "--quiet", "--detach", first)
        git(tmp_path / "clone", "merge", "--quiet", "--no-ff", "-m", "again", second)
        assert git(tmp_path / "clone", "rev-parse", "HEAD^{tree}") == git(
            made.minipto, "rev-parse", f"{merge}^{{tree}}"
        )


def test_scenarios_differ_in_the_fault_alone(stack: MakeStack) -> None:
    quiet = stack(Scenario.QUIET)
    for scenario in (Scenario.ACCUMULATE, Scenario.RUNTIME_BUMP, Scenario.FIXED_AND_BROKEN):
        made = stack(scenario)
        fault = SETTINGS[scenario].fault
        assert fault is not None
        name = SETTINGS[scenario].repository
        history = [
            git(s.root / name, "rev-list", "--reverse", "--topo-order", "main").split() for s in (quiet, made)
        ]
        faulty: list[bool] = []
        for calm, loud in zip(*history, strict=True):
            before, after = files(quiet.root / name, calm), files(made.root / name, loud)
            assert before.keys() == after.keys()
            differing = {path for path in before if before[path] != after[path]}
            assert differing in (set(), fault.paths)
            faulty.append(bool(differing))
        assert not faulty[0]
        assert faulty[-1]


@pytest.mark.long
def test_culprit_places_vary_and_side_branches_get_some(tmp_path: Path) -> None:
    places: set[int] = set()
    on_side = 0
    for seed in range(12):
        made = stack_at(tmp_path / str(seed), Scenario.TAIL, commits=MIN_COMMITS, seed=seed)
        (culprit,) = made.truth.culprits
        commits = made.commits()
        assert culprit.commit in commits[1:-1]
        places.add(commits.index(culprit.commit))
        line = git(made.minipto, "rev-list", "--first-parent", "main").split()
        on_side += culprit.commit not in line
    assert len(places) > 4
    assert 0 < on_side < 12


def test_fixed_and_broken_lists_the_latest_regression_first(stack: MakeStack) -> None:
    made = stack(Scenario.FIXED_AND_BROKEN)
    latest, earlier = (culprit.commit for culprit in made.truth.culprits)
    fix = made.first('Revert "' + git(made.minipto, "show", "-s", "--format=%s", earlier).partition(" (#")[0])
    git(made.minipto, "merge-base", "--is-ancestor", earlier, fix)
    git(made.minipto, "merge-base", "--is-ancestor", fix, latest)
    assert latest != fix != earlier


def test_runtime_culprit_lies_in_the_roll_that_brings_it_in(stack: MakeStack) -> None:
    made = stack(Scenario.RUNTIME_BUMP)
    (culprit,) = made.truth.culprits
    assert culprit.repository == "minirt"
    assert culprit.through is not None
    (parent,) = parents(made.minipto, culprit.through)
    changed = git(made.minipto, "diff", "--name-only", parent, culprit.through).split()
    assert changed == ["runtime"]
    roll = git(made.minirt, "rev-list", f"{gitlink(made, parent)}..{gitlink(made, culprit.through)}").split()
    assert 5 <= len(roll) <= 40
    assert culprit.commit in roll


# -- the folder --------------------------------------------------------------------------------------------------


def test_truth_and_stack_files_say_where_things_are(stack: MakeStack) -> None:
    made = stack(Scenario.TAIL)
    truth = json.loads((made.root / "truth.json").read_text())
    assert truth["culprits"] == [{"repository": "minipto", "commit": made.truth.culprits[0].commit}]
    assert (truth["good"], truth["bad"]) == (made.truth.good, made.truth.bad)
    assert (truth["scenario"], truth["commits"], truth["seed"]) == ("tail", COMMITS, SEED)
    assert (made.root / "minilib" / truth["case"]).is_file()
    text = (made.root / "stack.toml").read_text()
    assert "@ROOT@" not in text
    assert str(made.root) in text


def test_refuses_a_folder_in_use_too_few_commits_and_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(DemoError, match="new or an empty folder"):
        make_demo(tmp_path, scenario=Scenario.TAIL, commits=COMMITS, seed=0)
    with pytest.raises(DemoError, match=f"at least {MIN_COMMITS} commits"):
        make_demo(tmp_path / "new", scenario=Scenario.TAIL, commits=MIN_COMMITS - 1, seed=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DemoError, match="`git` on PATH"):
        make_demo(tmp_path / "new", scenario=Scenario.TAIL, commits=COMMITS, seed=0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_git_settings_of_the_user_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = stack_at(tmp_path / "plain", Scenario.TAIL)
    (tmp_path / "gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\thooksPath = /nowhere\n[init]\n\tdefaultBranch = trunk\n"
        '[protocol "file"]\n\tallow = never\n[commit]\n\tgpgSign = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    assert stack_at(tmp_path / "odd", Scenario.TAIL).truth == plain.truth


# -- real runs ---------------------------------------------------------------------------------------------------


@dataclass
class Lab:
    """Commits checked out and run for real; a runtime is built once for all commits that pin an equal one."""

    root: Path
    runtimes: dict[str, Path] = field(default_factory=dict)

    def checkout(self, stack: Stack, commit: str, *, runtime: str | None = None) -> Path:
        """A folder with the compiler at `commit` and its submodule, at `runtime` if that is given."""
        folder = self.root / f"{commit}-{runtime or 'pinned'}"
        if not folder.exists():
            extract(stack.minipto, commit, folder)
            (folder / "runtime").rmdir()
            (folder / "runtime").symlink_to(self.runtime(stack, runtime or gitlink(stack, commit)))
        return folder

    def runtime(self, stack: Stack, commit: str) -> Path:
        tree = git(stack.minirt, "rev-parse", f"{commit}^{{tree}}").strip()
        if tree not in self.runtimes:
            self.runtimes[tree] = self.root / tree
            extract(stack.minirt, commit, self.root / tree)
            subprocess.run(
                [sys.executable, "build.py"], cwd=self.root / tree, check=True, capture_output=True
            )
        return self.runtimes[tree]

    def run(
        self, stack: Stack, commit: str, *options: str, runtime: str | None = None, order: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        folder = self.checkout(stack, commit, runtime=runtime)
        path = os.pathsep.join(str(p) for p in (stack.root / "minilib", folder, folder / "runtime"))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        if order is not None:
            environment["MINIRT_ORDER"] = order
        command = [sys.executable, str(stack.root / "minilib" / stack.truth.case), "-p", "a2a3sim", "-d", "0"]
        return subprocess.run(
            [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))


def extract(repository: Path, commit: str, folder: Path) -> None:
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=repository, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def outcome(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return "crash"
    if done.returncode == 0:
        return "pass" if "[RUN] PASS" in done.stdout else "not validated"
    if "does not match golden" in done.stdout:
        return "mismatch"
    return "stall" if "rc=-100" in done.stderr else f"other: {done.stderr[-400:]}"


@pytest.mark.long
@pytest.mark.parametrize("scenario", DETERMINISTIC)
def test_culprit_fails_and_its_parent_passes(stack: MakeStack, lab: Lab, scenario: Scenario) -> None:
    made = stack(scenario)
    for culprit in made.truth.culprits:
        if culprit.through is None:
            (parent,) = parents(made.minipto, culprit.commit)
            assert outcome(lab.run(made, parent)) == "pass"
            assert outcome(lab.run(made, culprit.commit)) == made.truth.bad_when
        else:
            (before,) = parents(made.minirt, culprit.commit)
            assert outcome(lab.run(made, culprit.through, runtime=before)) == "pass"
            assert outcome(lab.run(made, culprit.through, runtime=culprit.commit)) == made.truth.bad_when


@pytest.mark.long
def test_dropped_dependency_fails_in_one_order_and_passes_in_another(stack: MakeStack, lab: Lab) -> None:
    made = stack(Scenario.DROPPED_DEP)
    (culprit,) = made.truth.culprits
    (parent,) = parents(made.minipto, culprit.commit)
    assert outcome(lab.run(made, culprit.commit, order="serial")) == "pass"
    assert outcome(lab.run(made, culprit.commit, order="reverse")) == "mismatch"
    assert outcome(lab.run(made, parent, order="reverse")) == "pass"


@pytest.mark.long
def test_quiet_passes_at_both_ends(stack: MakeStack, lab: Lab) -> None:
    made = stack(Scenario.QUIET)
    assert made.truth.culprits == ()
    assert outcome(lab.run(made, made.truth.good, "--dump-tensor", "1")) == "pass"
    assert outcome(lab.run(made, made.truth.bad, "--dump-args", "1")) == "pass"


@pytest.mark.long
def test_broken_stretch_neither_installs_nor_imports(stack: MakeStack, lab: Lab, tmp_path: Path) -> None:
    made = stack(Scenario.QUIET)
    broken = made.first("Refactor: keep the version in one module")
    repair = made.first('Revert "Refactor: keep the version in one module"')
    stretch = git(made.minipto, "rev-list", f"{broken}^..{repair}^").split()
    assert 2 <= len(stretch) <= 4
    for commit in (*stretch, repair):
        folder = lab.checkout(made, commit)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
        target = ["--target", str(tmp_path / commit), "--disable-pip-version-check", str(folder)]
        done = subprocess.run([*pip, *target], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (commit == repair), done.stderr
    assert "No module named 'minipto.version'" in lab.run(made, broken).stderr


@pytest.mark.long
def test_another_crash_hits_every_case_and_is_mended_next(stack: MakeStack, lab: Lab) -> None:
    made = stack(Scenario.QUIET)
    crash = made.first("Refactor: take the dump's name from the pass itself")
    repair = made.first("Fix: name of the pass in dumps")
    assert parents(made.minipto, repair) == [crash]
    done = lab.run(made, crash)
    assert done.returncode == 1
    assert "AttributeError" in done.stderr


def test_the_dump_flag_is_renamed_midway(stack: MakeStack, lab: Lab) -> None:
    made = stack(Scenario.QUIET)
    renamed = made.first("Refactor: --dump-args takes the place of --dump-tensor")
    (before,) = parents(made.minipto, renamed)
    place = made.commits().index(renamed) / COMMITS
    assert 0.2 < place < 0.8
    assert "--dump-tensor" in lab.run(made, before, "--help").stdout
    assert "--dump-tensor" not in lab.run(made, renamed, "--help").stdout
    assert "--dump-args" in lab.run(made, renamed, "--help").stdout
