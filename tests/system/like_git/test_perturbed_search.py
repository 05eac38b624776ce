"""A C program reads heap memory that it never set: it fails where that is not zero, now and then, and always where
malloc fills what it gives (MALLOC_PERTURB_)."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

STACK = """
name = "heap"
searched = "tool"
[repositories.tool]
path = "tool"
[platforms.host]
[perturbations.one-thread]
variables = { OMP_NUM_THREADS = "1" }
[perturbations.dirty-memory]
variables = { MALLOC_PERTURB_ = "165" }
[perturbations.not-there]
variables = { LD_PRELOAD = "/no/such/allocator.so" }
needs = ["/no/such/allocator.so"]
[steps.build]
command = ["cc", "-O1", "-o", "{slot}/case", "case.c"]
cwd = "{tool}"
inputs = ["tool"]
outputs = ["case"]
[case]
repository = "tool"
command = ["sh", "{case}"]
cwd = "{tool}"
harness = false
[[verdicts]]
verdict = "mismatch"
pattern = '^FAILED'
[[verdicts]]
verdict = "pass"
pattern = '^PASSED'
"""
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In a third of the runs, by their number, another call left its mark in the block before it is given again. */
static int drawn(void) {
    unsigned run = 0;
    FILE *counter = fopen(getenv("COUNTER"), "r+");
    fscanf(counter, "%u", &run);
    rewind(counter);
    fprintf(counter, "%u", run + 1);
    fclose(counter);
    return (run * 2654435761u >> 16) % 3 == 0;
}

static int *block(int clear) {
    volatile int *used = malloc(4000);
    used[500] = 0;
    if (drawn())
        used[500] = 7;
    free((void *)used);
    int *given = malloc(4000);
    if (clear)
        memset(given, 0, 4000);
    return given;
}

int main(void) {
    int *values = block(CLEARED), *others = malloc(9000);
    if (OLDER)
        values[500] += others[1000] == (int)0x5a5a5a5a;
    puts(values[500] ? "FAILED" : "PASSED");
    return values[500] != 0;
}
"""
SIZE, CULPRIT, OLDER = 20, 13, 6


def program(*, cleared: bool = True, older: bool = False) -> str:
    """The program; `older`: it has another fault, which shows where malloc fills memory, and never else."""
    given = {"CLEARED": cleared, "OLDER": older}
    return "".join(f"#define {name} {int(value)}\n" for name, value in given.items()) + PROGRAM


def bisect(
    folder: Path, programs: list[str]
) -> tuple[list[str], "subprocess.CompletedProcess[str]", dict[str, Any]]:
    """The commits, what the tool printed, and its report."""
    (folder / "stack.toml").write_text(STACK)
    repository = TestRepository(folder / "tool")
    commits = [
        repository.commit(f"commit {place}", {"case.c": f"/* {place} */\n{text}", "case.sh": "../case\n"})
        for place, text in enumerate(programs)
    ]
    (folder / "count").write_text("0")
    environment = {
        **os.environ,
        "PRECISION_BISECT_HOME": str(folder / "home"),
        "COUNTER": str(folder / "count"),
    }
    asked = (
        "--stack",
        "stack.toml",
        "--case",
        "case.sh",
        "--good",
        commits[0],
        "--bad",
        "main",
        "-o",
        "out",
    )
    done = run_program(*asked, cwd=folder, environment=environment)
    return commits, done, json.loads((folder / "out" / "report.json").read_text())


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_read_of_memory_that_was_never_set_is_found_under_malloc_s_filling(tmp_path: Path) -> None:
    programs = [program(cleared=place < CULPRIT) for place in range(SIZE)]
    commits, done, report = bisect(tmp_path, programs)
    assert done.returncode == 0, done.stderr
    (culprit,) = report["culprits"]
    assert (culprit["commit"], culprit["under"]) == (commits[CULPRIT], "dirty-memory")
    tried = {each["name"]: each for each in report["perturbations"]}
    assert tried["dirty-memory"]["searched"]
    assert tried["dirty-memory"]["bad_failures"] == tried["dirty-memory"]["bad_runs"] >= 3
    assert tried["dirty-memory"]["good_failures"] == 0
    assert "not-there" not in tried
    bad = (tmp_path / "out" / "reproduce-bad.sh").read_text()
    assert "export MALLOC_PERTURB_=165" in bad
    assert "under dirty-memory" in bad


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_an_older_fault_that_filled_memory_shows_is_not_blamed(tmp_path: Path) -> None:
    programs = [program(cleared=place < CULPRIT, older=place >= OLDER) for place in range(SIZE)]
    commits, done, report = bisect(tmp_path, programs)
    assert done.returncode in (0, 3), done.stderr
    named = {each["commit"] for each in report["culprits"]}
    assert named <= {commits[CULPRIT]}
    assert commits[CULPRIT] in named | {each["commit"] for each in report["suspects"]}
    assert [each["name"] for each in report["perturbations"] if each["searched"]] == ["dirty-memory"]
    assert all(each["under"] is None for each in report["culprits"])
