"""A command on a repository with submodules: each commit has them at its pins, from what the checkout holds of them."""

import subprocess
from pathlib import Path

import pytest

from tests.runner.workspace.small_submodules import Submodules
from tests.system.questions.test_predicate import found, run

CHECK = "git submodule --quiet update --init --recursive || exit 125; cat lib/state && ! grep -q wrong lib/deep/state"


@pytest.fixture
def made(tmp_path: Path) -> Submodules:
    """The pin of `lib` moves at the commits 3 and 6, from which on what it holds is wrong."""
    made = Submodules(tmp_path)
    made.add("lib")
    for number in range(2, 9):
        if number in (3, 6):
            made.move_deep("lib", "wrong" if number == 6 else "fine too")
        else:
            made.commit(f"commit {number}")
    return made


def test_the_commit_of_the_submodule_inside_of_the_submodule_is_found(
    made: Submodules, tmp_path: Path
) -> None:
    path, out = made.checkout.path, tmp_path / "out"
    ends = ("--good", made.commits[1], "--bad", "main")
    done = run(path, tmp_path / "home", *ends, "-o", str(out), "--", "sh", "-c", CHECK)
    assert done.returncode == 0, done.stderr
    assert found(out) == made.deep.git("rev-parse", "main")
    assert "submodule" not in done.stderr
    for side, code in (("bad", 1), ("good", 0)):
        script = subprocess.run(["sh", str(out / f"reproduce-{side}.sh")], capture_output=True)
        assert script.returncode == code, script.stderr
        assert script.stdout.endswith(b"fine\n")
    assert made.checkout.git("status", "--porcelain") == ""


def test_what_is_not_in_the_checkout_is_said_before_the_first_run(made: Submodules, tmp_path: Path) -> None:
    path = made.checkout.path
    made.checkout.git("update-index", "--cacheinfo", f"160000,{'ab' * 20},lib")
    made.checkout.git("commit", "--quiet", "--message", "a pin of nothing")
    unknown = made.checkout.git("rev-parse", "HEAD")
    made.checkout.git("reset", "--quiet", "--mixed", made.commits[-1])
    made.checkout.git("checkout", "--quiet", "--detach", unknown)
    made.commit("back", {"number": "9\n"})
    ends = ("--good", made.commits[1], "--bad", "HEAD")
    done = run(path, tmp_path / "home", *ends, "--dry-run", "--", "sh", "-c", CHECK)
    assert (
        f"lib is pinned at abababababab by {unknown[:12]}, which is not in {path}"
        in done.stderr + done.stdout
    )
    plain = tmp_path / "plain"
    made.checkout.git("clone", "--quiet", str(path), str(plain))
    done = run(plain, tmp_path / "home", *ends, "--dry-run", "--", "sh", "-c", CHECK)
    said = (
        f"lib is a submodule that {plain} has not initialized: it is empty in all runs; run: git -C {plain} "
    )
    assert said in done.stderr + done.stdout
