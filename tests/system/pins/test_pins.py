"""Pins of every kind, searched and frozen: real repositories, whose tool reads its pin files when the case runs."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program
from tests.support.quick import quick_first

STACK = """
name = "pinned"
searched = "tool"
[repositories.tool]
path = "tool"
[repositories.isa]
path = "isa"
[pins.isa]
kind = "commit-file"
holder = "tool"
path = "isa.pin"
earlier = { path = "ci/jobs.yml", key = "ISA_COMMIT" }
target = "isa"
[pins.assembler]
kind = "version-file"
holder = "tool"
path = "versions.env"
key = "ASSEMBLER"
[steps.tool]
command = ["sh", "-c", ". ./versions.env; cat tool.txt ../isa/isa.txt > out; echo $ASSEMBLER >> out"]
cwd = "{tool}"
inputs = ["tool", "isa"]
outputs = ["tool/out"]
[case]
repository = "tool"
command = ["sh", "-c", "if grep -q wrong {tool}/out; then echo WRONG y; exit 1; fi; echo RIGHT"]
cwd = "{tool}"
harness = false
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = '^WRONG'
[[verdicts]]
verdict = "pass"
pattern = '^RIGHT$'
"""


@dataclass
class Pinned:
    """A tool with a pin file and a version file, and the repository that the pin file names."""

    folder: Path
    tool: TestRepository
    isa: TestRepository
    output: Path

    def bisect(
        self, *arguments: str, good: str = "HEAD~4", bad: str | None = "HEAD"
    ) -> "subprocess.CompletedProcess[str]":
        ends = ["--good", good, *(["--bad", bad] if bad else [])]
        return run_program(
            *("--stack", "stack.toml", *ends, "--case", "tool.txt", "-o", str(self.output), *arguments),
            cwd=self.folder,
            environment={**os.environ, "PRECISION_BISECT_HOME": str(self.folder / "home")},
        )

    def report(self) -> dict[str, Any]:
        return json.loads((self.output / "report.json").read_text())


@pytest.fixture
def pinned(tmp_path: Path) -> Pinned:
    (tmp_path / "stack.toml").write_text(STACK)
    tool, isa = TestRepository(tmp_path / "tool"), TestRepository(tmp_path / "isa")
    first = isa.commit("isa 0", {"isa.txt": "0\n"})
    tool.commit(
        "tool", {"tool.txt": "0\n", "isa.pin": f"{first}\n", "versions.env": "ASSEMBLER='v1' # the\n"}
    )
    return Pinned(tmp_path, tool, isa, tmp_path / "out")


def history(pinned: Pinned, *, isa: str | None = None, version: str | None = None) -> str:
    """Four commits, of which the third moves the pins that are given; its id."""
    pinned.tool.commit("one", {"a": "1"})
    pinned.tool.commit("two", {"a": "2"})
    files = {"isa.pin": f"{isa}\n"} if isa else {}
    if version:
        files["versions.env"] = f"ASSEMBLER='{version}' # the\n"
    moving = pinned.tool.commit("move a pin", files)
    pinned.tool.commit("four", {"a": "4"})
    return moving


def test_a_pin_file_is_searched_inside(pinned: Pinned) -> None:
    commits = [pinned.isa.commit(f"isa {n}", {"isa.txt": f"{n}{' wrong' * (n > 3)}\n"}) for n in range(1, 7)]
    moving = history(pinned, isa=commits[-1])
    done = pinned.bisect()
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    (named,) = report["culprits"]
    assert (named["repository"], named["commit"]) == ("isa", commits[3])
    assert report["through"]["commit"] == moving
    (finding,) = report["counterfactuals"]
    assert finding["blame"] == "submodule"
    script = subprocess.run(["sh", str(pinned.output / "reproduce-bad.sh")], capture_output=True, text=True)
    assert "WRONG y" in script.stdout, script.stderr


@pytest.mark.long
def test_a_literal_from_before_the_pin_file_is_searched_inside(pinned: Pinned) -> None:
    """The file that holds it says other things too, and takes the counterfactuals' values."""
    commits = [pinned.isa.commit(f"isa {n}", {"isa.txt": f"{n}{' wrong' * (n > 2)}\n"}) for n in range(1, 5)]
    jobs = "on: push\nenv:\n  ISA_COMMIT: {}\n"
    pinned.tool.commit("no file yet", {"isa.pin": None, "ci/jobs.yml": jobs.format(commits[0])})
    pinned.tool.commit("unrelated", {"ci/jobs.yml": "# jobs\n" + jobs.format(commits[0])})
    moving = pinned.tool.commit("move it", {"ci/jobs.yml": jobs.format(commits[-1])})
    pinned.tool.commit("a file", {"isa.pin": f"{commits[-1]}\n"})
    done = pinned.bisect(good="HEAD~3")
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    (named,) = report["culprits"]
    assert (named["repository"], named["commit"]) == ("isa", commits[2])
    assert report["through"]["commit"] == moving
    assert [finding["blame"] for finding in report["counterfactuals"]] == ["submodule"]
    assert [commit["subject"] for commit in report["collapsed"]] == ["unrelated", "a file"]
    script = subprocess.run(["sh", str(pinned.output / "reproduce-bad.sh")], capture_output=True, text=True)
    assert "WRONG y" in script.stdout, script.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "seeks"),
    [
        ("back", "regression"),
        ("back", "fix"),
        ("diverged-lost", "regression"),
        ("diverged-gained", "regression"),
    ],
)
def test_a_roll_back_or_to_another_line(pinned: Pinned, shape: str, seeks: str) -> None:
    """The pin leaves a line of isa, and with it a commit; or meets one on the other line."""
    before, after = (" wrong", "") if seeks == "regression" else ("", " wrong")
    if shape == "diverged-gained":
        before, after = after, before
    base = pinned.isa.commit("base", {"isa.txt": f"base{before}\n"})
    line = [
        pinned.isa.commit(f"isa {n}", {"isa.txt": f"{n}{after if n > 3 else before}\n"}) for n in range(1, 7)
    ]
    pinned.isa.git("checkout", "--quiet", "-b", "other", base)
    other = pinned.isa.commit("other", {"other.txt": "1\n"})
    old, new = {
        "back": (line[-1], line[0]),
        "diverged-lost": (line[-1], other),
        "diverged-gained": (other, line[-1]),
    }[shape]
    pinned.tool.commit("start", {"isa.pin": f"{old}\n"})
    moving = history(pinned, isa=new)
    if seeks == "regression":
        done = pinned.bisect()
    else:
        done = pinned.bisect("--find-fix", "--bad", "HEAD~4", good="HEAD", bad=None)
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    (finding,) = report["counterfactuals"]
    assert finding["blame"] == "submodule"
    (named,) = report["culprits"]
    text = (pinned.output / "report.md").read_text()
    if shape == "diverged-gained":
        assert (named["repository"], named["commit"]) == ("isa", line[3])
        assert report["through"]["commit"] == moving
        assert report["lost"] is None
        assert "brought in by" in text
    else:
        assert (named["repository"], named["commit"]) == ("tool", moving)
        assert (report["lost"]["repository"], report["lost"]["commit"]) == ("isa", line[3])
        assert report["through"] is None
        what = "fix" if seeks == "regression" else "fault"
        how = "back" if shape == "back" else "to another line"
        assert f"by moving isa {how}" in report["message"]
        assert f"takes away the {what} isa {line[3]}" in report["message"]
        assert f"takes away the {what} " in text
    inner = report["ranges"][1]
    assert (inner["seeks"] == seeks) == (shape == "diverged-gained")
    words = "fixed" if inner["seeks"] == "fix" else "bad"
    replayed = pinned.isa.git("bisect", "replay", str(pinned.output / "bisect-isa.log"))
    assert f"{line[3]} is the first {words} commit" in replayed
    script = subprocess.run(["sh", str(pinned.output / "reproduce-bad.sh")], capture_output=True, text=True)
    assert "WRONG y" in script.stdout, script.stderr


@pytest.mark.long
def test_a_version_is_named_with_the_commit_that_moves_it(pinned: Pinned) -> None:
    moving = history(pinned, version="wrong-v2")
    done = pinned.bisect()
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    assert report["culprits"][0]["commit"] == moving
    (finding,) = report["counterfactuals"]
    assert (finding["repository"], finding["old"], finding["new"], finding["blame"]) == (
        "assembler", "v1", "wrong-v2", "version"
    )  # fmt: skip
    assert "by moving assembler from v1 to wrong-v2" in (pinned.output / "report.md").read_text()
    script = subprocess.run(["sh", str(pinned.output / "reproduce-good.sh")], capture_output=True, text=True)
    assert script.stdout.splitlines()[-1] == "RIGHT", script.stderr


@pytest.mark.long
@pytest.mark.parametrize("guilty", ["isa", "assembler"])
def test_a_commit_that_moves_two_pins(pinned: Pinned, guilty: str) -> None:
    """What is old and what is new is combined: the one at fault is told from the other."""
    broken = " wrong" if guilty == "isa" else ""
    commits = [pinned.isa.commit(f"isa {n}", {"isa.txt": f"{n}{broken * (n > 1)}\n"}) for n in range(1, 4)]
    moving = history(pinned, isa=commits[-1], version="v2" if guilty == "isa" else "wrong-v2")
    done = pinned.bisect()
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    (named,) = report["culprits"]
    (tested,) = report["layers"]
    assert tested["layers"] == ["tool", "isa", "assembler"]
    assert (tested["least"], tested["proven"]) == ([[guilty]], True)
    text = (pinned.output / "report.md").read_text()
    assert f"it takes {guilty} to be new" in text
    assert "| tool | isa | assembler | the case is |" in text
    assert "| old | new | old | bad |" in text if guilty == "isa" else "| old | old | new | bad |" in text
    if guilty == "isa":
        assert (named["repository"], named["commit"]) == ("isa", commits[1])
        assert report["through"]["commit"] == moving
    else:
        assert (named["repository"], named["commit"]) == ("tool", moving)
        assert report["message"].endswith("by moving assembler from v1 to wrong-v2")


@pytest.mark.long
def test_pins_that_fail_only_together(pinned: Pinned) -> None:
    """The new assembler does not take the old headers, and is wrong with the new ones."""
    stack = STACK.replace(
        'command = ["sh", "-c", ". ./versions.env;',
        'command = ["sh", "-c", ". ./versions.env; [ $ASSEMBLER = v1 ] || grep -q new ../isa/isa.txt || exit 1;',
    ).replace("if grep -q wrong {tool}/out", "if grep -q v2 {tool}/out")
    (pinned.folder / "stack.toml").write_text(stack)
    moving = history(pinned, isa=pinned.isa.commit("isa 1", {"isa.txt": "new\n"}), version="v2")
    done = pinned.bisect()
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    assert report["culprits"][0]["commit"] == moving
    (tested,) = report["layers"]
    assert (tested["least"], tested["proven"]) == ([["isa", "assembler"]], True)
    assert "together, parts of which could not be tested" in report["message"]
    assert "skip" in {cell["judgement"] for cell in tested["cells"]}


@pytest.mark.long
def test_a_frozen_pin_is_held_at_what_the_bad_end_says(pinned: Pinned) -> None:
    """The pin is at fault, and held: then both ends fail alike."""
    history(pinned, version="wrong-v2")
    done = pinned.bisect("--freeze", "assembler")
    assert done.returncode == 4, done.stderr
    report = (pinned.output / "report.md").read_text()
    assert "frozen at wrong-v2" in pinned.bisect("--freeze", "assembler", "--dry-run").stdout
    assert "held at wrong" in report


@pytest.mark.long
def test_a_commit_that_moves_only_a_frozen_pin_is_no_candidate(pinned: Pinned) -> None:
    moving = history(pinned, version="v2")
    broken = pinned.tool.commit("break", {"tool.txt": "wrong\n"})
    done = pinned.bisect("--freeze", "assembler", "--freeze", "isa", good="HEAD~5")
    assert done.returncode == 0, done.stderr
    report = pinned.report()
    assert report["culprits"][0]["commit"] == broken
    assert moving in {each["commit"] for each in report["collapsed"]}
    states = {pin["name"]: pin["frozen_at"] for pin in report["pins"]}
    assert states == {"isa": (pinned.tool.path / "isa.pin").read_text().strip(), "assembler": "v2"}
    assert "frozen at v2 in every run" in (pinned.output / "report.md").read_text()
    script = subprocess.run(["sh", str(pinned.output / "reproduce-good.sh")], capture_output=True, text=True)
    assert script.stdout.splitlines()[-1] == "RIGHT", script.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    quick_first(
        [
            (["--freeze", "nonsense"], "--freeze nonsense: expected one of the pins assembler, isa"),
            (["--search", "isa", "--freeze", "isa"], "expected one of them"),
        ]
    ),
)
def test_wrong_pins_are_refused(pinned: Pinned, arguments: list[str], says: str) -> None:
    history(pinned, version="v2")
    done = pinned.bisect(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
