"""A tool that a stack pins by its version is searched over its releases, then over the commits between two of them."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TestRepository
from tests.support.program import run_program

STACK = """
name = "released"
searched = "tool"
[repositories.tool]
path = "tool"
[repositories.assembler]
releases = {releases}
{more}
[pins.assembler]
kind = "version-file"
holder = "tool"
path = "versions.env"
key = "ASSEMBLER"
target = "assembler"
[steps.tool]
command = ["sh", "-c", "cat tool.txt $ASSEMBLER_ROOT/assembler versions.env > out"]
cwd = "{{tool}}"
inputs = ["tool", "assembler"]
outputs = ["tool/out"]
[environment.variables]
ASSEMBLER_ROOT = "{{assembler}}/{where}"
[case]
repository = "tool"
command = ["sh", "-c", "if grep -q wrong {{tool}}/out; then echo WRONG y; exit 1; fi; echo RIGHT"]
cwd = "{{tool}}"
harness = false
[platforms.sim]
[[verdicts]]
verdict = "mismatch"
pattern = '^WRONG'
[[verdicts]]
verdict = "pass"
pattern = '^RIGHT$'
"""
PROVIDE = """
[steps.assembler]
command = ["sh", "-c", "mkdir unpacked; tar -x -C unpacked -f {archives}/$(cat VERSION).tar"]
cwd = "{{assembler}}"
inputs = ["assembler"]
outputs = ["assembler/unpacked"]
"""
TEXTS = {"v1": "1\n", "v2": "2\n", "v9": "9\n", "v10": "10 wrong\n", "v11": "11 wrong\n"}
"""What each release of the assembler is."""


@dataclass
class Released:
    """A tool whose version file names releases of an assembler; the third of its four commits moves it."""

    folder: Path
    tool: TestRepository
    moving: str

    def write_stack(self, releases: str, *, where: str, more: str = "") -> None:
        text = STACK.format(releases=releases, where=where, more=more)
        (self.folder / "stack.toml").write_text(text)

    def bisect(self, *arguments: str, ends: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        asked = ends or ("--good", "HEAD~4", "--bad", "HEAD")
        return self.run(*("--stack", "stack.toml", *asked, "--case", "tool.txt", "-o", "out", *arguments))

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        home = str(self.folder / "home")
        return run_program(
            *arguments, cwd=self.folder, environment={**os.environ, "PRECISION_BISECT_HOME": home}
        )

    def report(self) -> dict[str, Any]:
        return json.loads((self.folder / "out" / "report.json").read_text())

    def unpack(self, *, broken: str | None = None) -> Path:
        """A folder with each release but the broken one unpacked."""
        for version, text in TEXTS.items():
            release = self.folder / "releases" / version
            release.mkdir(parents=True)
            if version != broken:
                (release / "assembler").write_text(text)
        return self.folder / "releases"

    def pack(self, *, broken: str | None = None) -> Path:
        """A folder with an archive of each release, one of them torn."""
        archives = self.folder / "archives"
        archives.mkdir()
        for version, text in TEXTS.items():
            (archives / "assembler").write_text(text)
            archive = archives / f"{version}.tar"
            subprocess.run(["tar", "-c", "-C", archives, "-f", archive, "assembler"], check=True)
            if version == broken:
                archive.write_bytes(archive.read_bytes()[:100])
        return archives


@pytest.fixture
def released(tmp_path: Path) -> Released:
    tool = TestRepository(tmp_path / "tool")
    tool.commit("tool", {"tool.txt": "0\n", "versions.env": "ASSEMBLER=v1\nOTHER=1\n"})
    tool.commit("one", {"a": "1"})
    tool.commit("two", {"a": "2"})
    moving = tool.commit("a new assembler", {"versions.env": "ASSEMBLER=v11\nOTHER=1\n"})
    tool.commit("four", {"a": "4"})
    return Released(tmp_path, tool, moving)


def test_unpacked_releases_are_searched(released: Released) -> None:
    released.unpack()
    released.write_stack('{ folder = "releases" }', where="release")
    done = released.bisect()
    assert done.returncode == 0, done.stderr
    report = released.report()
    (named,) = report["culprits"]
    assert (named["repository"], named["version"], named["author"]) == ("assembler", "v10", None)
    assert report["message"] == "assembler v10 introduced it"
    assert report["through"]["commit"] == released.moving
    (finding,) = report["counterfactuals"]
    assert (finding["told"], finding["blame"]) == (["v1", "v11"], "submodule")
    assert [(pin["value_good"], pin["value_bad"]) for pin in report["pins"]] == [("v1", "v11")]
    pages = released.run("report", "--html", "pages")
    assert pages.returncode == 0, pages.stderr
    told = [done.stderr, *(page.read_text() for page in (released.folder / "pages").rglob("*.html"))]
    assert any("release v10" in text for text in told)
    assert not any("1970-01-01" in text for text in told), "nobody knows when a release was made"
    text = (released.folder / "out" / "report.md").read_text()
    assert "| assembler at versions.env | v1 | v11 |" in text
    for script, says in (("bad", "WRONG y"), ("good", "RIGHT")):
        ran = subprocess.run(
            ["sh", str(released.folder / "out" / f"reproduce-{script}.sh"), str(released.folder / script)],
            capture_output=True,
            text=True,
        )
        assert ran.stdout.splitlines()[-1] == says, ran.stderr
        version = "v10" if script == "bad" else "v9"
        built = (released.folder / script / "tool" / "out").read_text()
        assert built == f"0\n{TEXTS[version]}ASSEMBLER={version}\nOTHER=1\n"


@pytest.mark.long
def test_releases_that_a_step_provides_are_searched_around_one_that_does_not_unpack(
    released: Released,
) -> None:
    archives = released.pack(broken="v2")
    released.write_stack(
        '{ command = ["sh", "-c", "echo v1; echo v2; echo v9; echo v10; echo v11"] }',
        where="unpacked",
        more=PROVIDE.format(archives=archives),
    )
    done = released.bisect()
    assert done.returncode == 0, done.stderr
    report = released.report()
    assert [named["version"] for named in report["culprits"]] == ["v10"]
    assert report["message"] == "assembler v10 introduced it"


@pytest.mark.long
def test_a_release_that_cannot_be_had_beside_the_culprit_leaves_suspects(released: Released) -> None:
    archives = released.pack(broken="v9")
    released.write_stack(
        '{ versions = ["v1", "v2", "v9", "v10", "v11"] }',
        where="unpacked",
        more=PROVIDE.format(archives=archives),
    )
    done = released.bisect()
    assert done.returncode == 3, done.stderr
    assert {named["subject"] for named in released.report()["suspects"]} == {"release v9", "release v10"}


SOURCE = """
[repositories.assembler-source]
path = "source"
[pins.assembler-source]
kind = "commit-file"
holder = "assembler"
path = "SOURCE"
target = "assembler-source"
[steps.assembler]
command = ["sh", "-c", "mkdir built; {build}"]
cwd = "{{assembler}}"
inputs = ["assembler", "assembler-source"]
outputs = ["assembler/built"]
"""
BUILD = "cp {assembler-source}/assembler built"
UNLESS_RELEASED = (
    "if [ $(cat SOURCE) = $(git show HEAD:SOURCE) ]; then cp release/assembler built; else " + BUILD + "; fi"
)


@pytest.mark.parametrize(
    ("releases", "build"),
    [
        ('{ tags = "assembler-source", pattern = "v*" }', BUILD),
        pytest.param(
            '{ folder = "releases", tags = "assembler-source" }', UNLESS_RELEASED, marks=pytest.mark.long
        ),
    ],
    ids=["built", "unpacked"],
)
def test_between_two_releases_the_commits_of_the_tool_are_searched(
    released: Released, releases: str, build: str
) -> None:
    """Releases first, which are there or built once; then what is built of the commits between two of them."""
    released.unpack()
    source = TestRepository(released.folder / "source")
    breaking: dict[str, str] = {}
    for number, (version, text) in enumerate(TEXTS.items()):
        source.commit(f"{number} a", {"a": str(number)})
        breaking[version] = source.commit(f"{number} b", {"assembler": text})
        source.commit(f"{number} c", {"c": str(number)})
        source.git("tag", version)
    source.git("tag", "nightly")
    released.write_stack(releases, where="built", more=SOURCE.format(build=build))
    done = released.bisect()
    assert done.returncode == 0, done.stderr
    report = released.report()
    (named,) = report["culprits"]
    assert (named["repository"], named["commit"]) == ("assembler-source", breaking["v10"])
    assert named["version"] is None
    assert [each["repository"] for each in report["ranges"]] == ["tool", "assembler", "assembler-source"]
    assert [finding["told"] for finding in report["counterfactuals"]] == [["v1", "v11"], None]
    bad = subprocess.run(
        ["sh", str(released.folder / "out" / "reproduce-bad.sh")], capture_output=True, text=True
    )
    assert bad.stdout.splitlines()[-1] == "WRONG y", bad.stderr


@pytest.mark.long
def test_releases_are_searched_by_their_names(released: Released) -> None:
    """Nothing but the assembler changed."""
    released.unpack()
    released.write_stack('{ folder = "releases" }', where="release")
    done = released.bisect("--repo", "assembler", ends=("--good", "v2", "--bad", "v11"))
    assert done.returncode == 0, done.stderr
    assert [named["version"] for named in released.report()["culprits"]] == ["v10"]


@pytest.mark.long
def test_a_frozen_release_is_told_by_its_version(released: Released) -> None:
    released.unpack()
    released.write_stack('{ folder = "releases" }', where="release")
    planned = released.bisect("--freeze", "assembler", "--dry-run")
    assert "frozen at v11" in planned.stdout
