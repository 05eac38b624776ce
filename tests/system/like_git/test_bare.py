"""A bare repository, as a server or `git clone --mirror` has it: there is nothing to check out beside it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TestRepository
from tests.system.questions.test_predicate import found, run

FINE, BROKEN = "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n"


@pytest.fixture
def bare(repository: TestRepository, tmp_path: Path) -> Path:
    """Three commits, the last one broken, whose script is tracked."""
    repository.git("config", "core.fileMode", "true")
    for number, text in enumerate((FINE, FINE + "\n", BROKEN)):
        (repository.path / "check.sh").write_text(text)
        (repository.path / "check.sh").chmod(0o755)
        repository.commit(f"commit {number}", {})
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(tmp_path / "tool.git"))
    return tmp_path / "tool.git"


def test_it_is_searched_from_inside_and_its_scripts_run(
    bare: Path, repository: TestRepository, tmp_path: Path
) -> None:
    before = sorted(bare.rglob("*"))
    out = tmp_path / "out"
    words = ("--good", "main~2", "--bad", "main", "-o", str(out))
    done = run(bare, tmp_path / "home", *words, "--", "./check.sh")
    assert done.returncode == 0, done.stderr
    assert found(out) == repository.git("rev-parse", "main")
    assert f"culprit    tool {found(out)}" in done.stdout
    assert sorted(bare.rglob("*")) == before
    for side, code in (("bad", 1), ("good", 0)):
        script = subprocess.run(["sh", str(out / f"reproduce-{side}.sh")], env=os.environ, check=False)
        assert script.returncode == code


def test_what_is_on_disk_there_cannot_be_laid_over(bare: Path, tmp_path: Path) -> None:
    words = ("--good", "main~2", "--bad", "main", "--dry-run", "--repository", "tool=tool.git")
    refused = run(tmp_path, tmp_path / "home", *words, "--overlay", "tool.git/check.sh", "--", "./check.sh")
    assert refused.returncode == 2
    assert "a bare repository, name them as PATH@REV" in refused.stderr
    taken = run(tmp_path, tmp_path / "home", *words, "--overlay", "tool.git/check.sh@main", "--", "true")
    assert taken.returncode == 4
    assert "found only changes in ignored paths" in taken.stderr
