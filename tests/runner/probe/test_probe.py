"""Whole probes on a small stack: what is run where, with what, and what comes of it."""

import multiprocessing
import resource
import signal
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
import pytest
import torch

from precision_bisect.runner.case.case import CaseName, FrozenGolden, RunOptions, freeze
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe.judge import JudgingRule, PredicateAbortError
from precision_bisect.runner.process.run import Command, FinishedCommand, OnLine, OnLines, execute
from precision_bisect.store.durable_files import remove
from precision_bisect.store.vocabulary import BuildSource, Judgement, Verdict
from tests.conftest import TestRepository
from tests.runner.small_stack import SmallStack, snapshot
from tests.support.quick import quick_first


def with_script(small: SmallStack, text: str, **case: Any) -> None:
    """The case is this shell script."""
    small.cases.commit("the case", {"case.sh": text})
    small.case = {"command": ["sh", "{case}"], **case}


def test_good_and_bad(small: SmallStack) -> None:
    bad = small.tool.commit("bad", {"tool.txt": "bad\n"})
    repositories = (small.tool, small.rt, small.cases)
    before = [snapshot(repository.path) for repository in repositories]
    with small.prober() as prober:
        good = small.probe(prober, chosen={"tool": small.tool.git("rev-parse", "HEAD~")})
        assert (good.classification.verdict, good.judgement) == (Verdict.PASS, Judgement.GOOD)
        worse = small.probe(prober, chosen={"tool": bad})
        assert (worse.classification.verdict, worse.judgement) == (Verdict.MISMATCH, Judgement.BAD)
        assert worse.classification.signature is not None
        assert "y" in worse.classification.signature
    assert any(line.text == "WRONG y" for line in worse.classification.evidence)
    assert good.build_source is BuildSource.NONE
    assert good.log.is_file()
    assert [snapshot(repository.path) for repository in repositories] == before


def test_a_probe_leaves_its_folder_as_if_it_were_the_first(small: SmallStack) -> None:
    with_script(small, "echo RIGHT")
    (small.folder / "probe").mkdir()
    (small.folder / "probe" / "outcome.json").write_text("{}")
    with small.prober() as prober:
        result = small.probe(prober)
    assert sorted(path.name for path in (small.folder / "probe").iterdir()) == ["run.log.gz"]
    assert result.judgement is Judgement.GOOD


def test_the_case_missing_at_a_commit_is_a_skip(small: SmallStack) -> None:
    with small.prober() as prober:
        result = small.probe(prober, case=CaseName.parse("not-yet.sh", small.stack()))
    assert (result.classification.verdict, result.judgement) == (Verdict.UNKNOWN, Judgement.SKIP)
    assert result.classification.signature == "case missing"
    assert "not-yet.sh" in result.classification.evidence[0].text


def test_a_folder_that_is_missing_at_a_commit_is_a_skip(small: SmallStack) -> None:
    with_script(small, "echo RIGHT", cwd="{tool}/python")
    with small.prober() as prober:
        result = small.probe(prober)
    assert (result.classification.verdict, result.judgement) == (Verdict.UNKNOWN, Judgement.SKIP)
    assert any("python: No such file" in line.text for line in result.classification.evidence)


@pytest.mark.parametrize(
    ("asked", "judgement"),
    [
        ("build_error", Judgement.BAD),
        ("signature:a.c: x", Judgement.BAD),
        ("signature:a.c: y", Judgement.SKIP),
        ("mismatch", Judgement.SKIP),
    ],
)
def test_a_build_that_fails_is_bad_where_that_failure_is_asked_for(
    small: SmallStack, asked: str, judgement: Judgement
) -> None:
    small.steps = {"rt": {"command": ["sh", "-c", "echo 'a.c:1:2: error: x'; exit 1"], "inputs": ["rt"]}}
    with small.prober() as prober:
        result = small.probe(prober, judging_rule=JudgingRule.parse(asked))
    assert (result.classification.signature, result.judgement) == ("a.c: x", judgement)


def test_a_build_that_fails_is_a_skip(small: SmallStack) -> None:
    small.steps = {"rt": {"command": ["sh", "-c", "echo 'a.c:1:2: error: x'; exit 1"], "inputs": ["rt"]}}
    with small.prober() as prober:
        result = small.probe(prober)
    assert (result.classification.verdict, result.judgement) == (Verdict.BUILD_ERROR, Judgement.SKIP)
    assert result.toolchain is None
    assert result.command == ()
    assert result.log.name == "build-rt.log.gz"
    assert result.log.is_file()


def test_a_build_over_its_time_is_no_case_that_hangs(small: SmallStack) -> None:
    """`--bad-when timeout` asks for a case that hangs, and `--bad-when build_error` for such a build."""
    small.steps = {"rt": {"command": ["sleep", "600"], "inputs": ["rt"], "timeout": 0.5}}
    with small.prober() as prober:
        judged = [
            small.probe(prober, judging_rule=JudgingRule.parse(text)) for text in ("timeout", "build_error")
        ]
    assert [each.judgement for each in judged] == [Judgement.SKIP, Judgement.BAD]


def test_a_run_over_its_time_is_a_skip_and_leaves_nothing_running(small: SmallStack) -> None:
    with_script(small, "echo RIGHT; setsid sleep 600 & sleep 601")
    with small.prober() as prober:
        result = small.probe(prober, timeout=1.0)
        assert (result.classification.verdict, result.judgement) == (Verdict.TIMEOUT, Judgement.SKIP)
        assert result.run_seconds >= 1
        slot = str(prober.slot.directory)
    assert not [p for p in psutil.process_iter(["cmdline"]) if slot in " ".join(p.info["cmdline"] or ())]


HELP = """
if [ "$1" = --help ]; then
    echo asked >> "$ASKED"; echo "usage: {flags}"; exit {code}
fi
echo "RAN $*"; echo RIGHT
"""


@pytest.mark.parametrize(
    ("flags", "given"),
    quick_first(
        [
            ("--dump-args [0-3]", "RAN --dump-args 2"),
            ("--dump-tensor [0-3]", "RAN --dump-tensor 2"),
            ("--dump-tensor or --dump-args", "RAN --dump-args 2"),
            ("nothing", "RAN "),
        ]
    ),
)
def test_options_are_looked_up_at_the_commit(small: SmallStack, flags: str, given: str) -> None:
    asked = small.folder / "asked"
    small.environment = {"variables": {"ASKED": str(asked)}}
    with_script(
        small,
        HELP.format(flags=flags, code=0),
        help=["sh", "{case}", "--help"],
        flags={"dump": ["--dump-args", "--dump-tensor"]},
    )
    lines: list[str] = []
    with small.prober() as prober:
        results = [
            small.probe(prober, options=RunOptions(dump_level=2), judging_rule=JudgingRule(command=True))
            for _ in range(2)
        ]
        lines.extend(line.text for result in results for line in result.classification.evidence)
        result = results[-1]
        assert result.command[2:] == tuple(given.split()[1:])
        assert result.missing_options == (() if "--dump" in flags else ("--dump-args",))
    with small.prober() as another:
        assert small.probe(another, options=RunOptions(dump_level=2)).command == result.command
    assert asked.read_text() == "asked\n", "once for equal content"
    small.cases.commit("a helper that the case may read", {"helper.sh": "true"})
    with small.prober() as another:
        small.probe(another, options=RunOptions(dump_level=2))
    assert asked.read_text() == "asked\n" * 2


def test_options_are_looked_up_where_what_decides_them_changes(small: SmallStack) -> None:
    asked = small.folder / "asked"
    small.environment = {"variables": {"ASKED": str(asked)}}
    case = {
        "help": ["sh", "{case}", "--help"],
        "help_inputs": ["cases:parser.sh"],
        "flags": {"dump": ["--dump-args", "--dump-tensor"]},
    }
    with_script(small, HELP.format(flags="--dump-tensor", code=0), **case)
    changes = [
        ("a helper", {"helper.sh": "true"}, "--dump-tensor", 1),
        ("the parser", {"parser.sh": "true"}, "--dump-tensor", 2),
        ("the case itself", {"case.sh": HELP.format(flags="--dump-args", code=0)}, "--dump-args", 3),
    ]
    with small.prober() as prober:
        small.probe(prober, options=RunOptions(dump_level=1))
        for message, files, spelling, times in changes:
            small.cases.commit(message, files)
            result = small.probe(prober, options=RunOptions(dump_level=1))
            assert result.command[-2:] == (spelling, "1"), message
            assert asked.read_text() == "asked\n" * times, message


def test_options_are_those_of_the_case_that_runs(small: SmallStack) -> None:
    small.environment = {"variables": {"ASKED": "/dev/null"}}
    case = {"help": ["sh", "{case}", "--help"], "flags": {"dump": ["--dump-args", "--dump-tensor"]}}
    with_script(small, HELP.format(flags="--dump-tensor", code=0), **case)
    small.cases.commit("another", {"other.sh": HELP.format(flags="--dump-args", code=0)})
    with small.prober() as prober:
        for name, spelling in (("case.sh", "--dump-tensor"), ("other.sh", "--dump-args")):
            script = CaseName.parse(name, small.stack())
            result = small.probe(prober, case=script, options=RunOptions(dump_level=1))
            assert result.command[-2:] == (spelling, "1")


def test_a_script_of_the_tool_itself_is_no_commit_s(small: SmallStack) -> None:
    """As a build directory that is itself the case is run."""
    small.environment = {"variables": {"ASKED": "/dev/null"}}
    case = {
        "help": ["sh", "{case}", "--help"],
        "help_inputs": ["cases"],
        "flags": {"dump": ["--dump-tensor"]},
    }
    with_script(small, "exit 1", **case)
    script = small.folder / "own.sh"
    script.write_text(HELP.format(flags="--dump-tensor", code=0))
    own = CaseName(path=PurePosixPath(script), arguments=())
    with small.prober() as prober:
        result = small.probe(prober, case=own, options=RunOptions(dump_level=1))
    assert result.command[-2:] == ("--dump-tensor", "1")


def test_a_flag_renamed_midway(small: SmallStack) -> None:
    """One prober, two commits of the case, each with the spelling it had."""
    case = {"help": ["sh", "{case}", "--help"], "flags": {"dump": ["--dump-args", "--dump-tensor"]}}
    small.environment = {"variables": {"ASKED": "/dev/null"}}
    with_script(small, HELP.format(flags="--dump-tensor", code=0), **case)
    old = small.cases.git("rev-parse", "HEAD")
    with_script(small, HELP.format(flags="--dump-args", code=0), **case)
    new = small.cases.git("rev-parse", "HEAD")
    with small.prober() as prober:
        for sha, spelling in ((old, "--dump-tensor"), (new, "--dump-args"), (old, "--dump-tensor")):
            result = small.probe(prober, chosen={"cases": sha}, options=RunOptions(dump_level=1))
            assert result.command[-2:] == (spelling, "1")


def test_a_help_that_fails_offers_nothing_and_is_asked_again(small: SmallStack) -> None:
    asked = small.folder / "asked"
    small.environment = {"variables": {"ASKED": str(asked)}}
    flags = {"dump": ["--dump-args"]}
    with_script(small, HELP.format(flags="--dump-args", code=1), help=["sh", "{case}", "--help"], flags=flags)
    with small.prober() as prober:
        for _ in range(2):
            result = small.probe(prober, options=RunOptions(dump_level=1))
            assert result.missing_options == ("--dump-args",)
    assert asked.read_text() == "asked\n" * 2


@pytest.mark.parametrize(
    ("code", "judgement"),
    quick_first(
        [
            (0, Judgement.GOOD),
            (1, Judgement.BAD),
            (124, Judgement.BAD),
            (126, Judgement.SKIP),
            (127, Judgement.SKIP),
            (125, Judgement.SKIP),
        ],
        3,
    ),
)
def test_a_predicate_is_judged_as_git_does(small: SmallStack, code: int, judgement: Judgement) -> None:
    small.case = {"command": ["sh", "-c", f"echo WRONG y; exit {code}"]}
    with small.prober() as prober:
        result = small.probe(prober, case=None, judging_rule=JudgingRule(command=True))
    assert result.judgement is judgement
    assert result.ending.exit_code == code


@pytest.mark.parametrize("command", ["exit 128", "exit 255", "kill -SEGV $$"])
def test_a_predicate_that_aborts(small: SmallStack, command: str) -> None:
    small.case = {"command": ["sh", "-c", command]}
    with small.prober() as prober, pytest.raises(PredicateAbortError):
        small.probe(prober, case=None, judging_rule=JudgingRule(command=True, crash="stop"))


def test_a_predicate_out_of_time_is_a_skip(small: SmallStack) -> None:
    small.case = {"command": ["sleep", "600"]}
    with small.prober() as prober:
        assert (
            small.probe(prober, case=None, judging_rule=JudgingRule(command=True), timeout=0.5).judgement
            is Judgement.SKIP
        )


def test_the_environment_of_a_run(small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack's variables reach it, with and without an interpreter; git's and another Python's do not."""
    other = TestRepository(tmp_path / "other")
    other.commit("other", {"a": "1"})
    script = (
        'echo "$FLAG|$GIT_DIR|$GIT_INDEX_FILE|$PYTHONPATH|$KEPT" > "$SEEN"; '
        'git rev-parse HEAD >> "$SEEN"; echo RIGHT'
    )
    for python, left in (("", "/elsewhere"), ("{python}", "")):
        seen = tmp_path / "seen"
        small.environment = {"variables": {"FLAG": "{rt}", "SEEN": str(seen), "PY": python}}
        with_script(small, script)
        request = small.request()
        with monkeypatch.context() as outside:
            outside.setenv("GIT_DIR", str(other.path / ".git"))
            outside.setenv("GIT_INDEX_FILE", "/elsewhere/index")
            outside.setenv("PYTHONPATH", "/elsewhere")
            outside.setenv("KEPT", "kept")
            with small.prober() as prober:
                assert prober.probe(request).judgement is Judgement.GOOD
                rt = prober.slot.path("rt")
        assert seen.read_text().splitlines() == [f"{rt}|||{left}|kept", request.revisions["cases"]]


def frozen(small: SmallStack, folder: Path) -> FrozenGolden:
    for name in ("in/x.pt", "out/y.pt"):
        (folder / name).parent.mkdir(parents=True)
        torch.save(torch.ones(1), folder / name)
    return freeze(folder, small.home.golden)


def test_frozen_data_are_checked_before_each_probe(small: SmallStack, tmp_path: Path) -> None:
    golden = frozen(small, tmp_path / "data")
    with_script(small, f"rm -f {golden.directory}/in/x.pt; echo RIGHT")
    with small.prober() as prober:
        assert small.probe(prober, golden=golden).judgement is Judgement.GOOD
        with pytest.raises(UserError, match=r"in/x\.pt"):
            small.probe(prober, golden=golden)


def test_a_case_that_takes_no_frozen_data_is_not_judged_on_data_of_its_own(
    small: SmallStack, tmp_path: Path
) -> None:
    golden = frozen(small, tmp_path / "data")
    options = RunOptions(golden_data=golden.directory)
    with small.prober() as prober:
        result = small.probe(prober, golden=golden, options=options)
    assert result.judgement is Judgement.SKIP
    assert result.classification.signature == "data not frozen"
    assert result.run_seconds == 0


def test_the_build_directory_is_kept(small: SmallStack) -> None:
    with_script(
        small,
        'mkdir -p ../build_output/old ../build_output/new; echo "$$" > ../build_output/new/pid; '
        "touch -d 2001-01-01 ../build_output/old; echo RIGHT",
        build_output="build_output",
    )
    with small.prober() as prober:
        left = prober.slot.directory / "build_output" / "killed"
        left.mkdir(parents=True)
        result = small.probe(prober)
        assert result.build_directory == small.folder / "probe" / "build"
        assert [path.name for path in result.build_directory.iterdir()] == ["pid"]
        assert not left.exists()


def test_a_build_output_that_leads_elsewhere_is_left_alone(small: SmallStack, tmp_path: Path) -> None:
    """A hostile or odd case links its output folder to one of the user's."""
    (tmp_path / "precious" / "folder").mkdir(parents=True)
    with_script(
        small, f"ln -sfn {tmp_path}/precious ../build_output; echo RIGHT", build_output="build_output"
    )
    with small.prober() as prober:
        for _ in range(2):
            assert small.probe(prober).build_directory is None
        assert (tmp_path / "precious" / "folder").is_dir()


def test_the_environment_is_described(small: SmallStack, monkeypatch: pytest.MonkeyPatch) -> None:
    small.environment = {"matters": ["CXXFLAGS"]}
    with small.prober() as prober:
        before = small.probe(prober)
        monkeypatch.setenv("CXXFLAGS", "-O3")
        after = small.probe(prober)
    assert before.surroundings["variable CXXFLAGS"] == ""
    assert after.surroundings["variable CXXFLAGS"] == "-O3"


def test_a_board_is_leased_for_the_run_alone(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precision_bisect.runner.probe.probe.device_locks", lambda: tmp_path)
    lock = tmp_path / "precision-bisect-board-3.lock"
    with_script(small, f"if flock -n {lock} true; then echo WRONG y; exit 1; fi; echo RIGHT")
    small.steps = {"rt": {"command": ["sh", "-c", f"test ! -e {lock}"], "inputs": ["rt"]}}
    held: list[int] = []

    def listening(command: Command, *, log: Path, on_line: OnLine, on_lines: OnLines) -> FinishedCommand:
        held.append(len(command.locks))
        return execute(command, log=log, on_line=on_line, on_lines=on_lines)

    monkeypatch.setattr("precision_bisect.runner.probe.probe.execute", listening)
    with small.prober() as prober:
        assert small.probe(prober, platform="board", device=3).judgement is Judgement.GOOD
        assert small.probe(prober, directory=tmp_path / "other").judgement is Judgement.BAD
    assert held == [2, 1], "a run outlives a driver that is killed: it holds the slot and the board itself"
    subprocess.run(["flock", "-n", str(lock), "true"], check=True)


def test_a_full_disk_is_one_clear_line(small: SmallStack) -> None:
    """A file-size limit stands for the full disk: every write past it fails as one on a full disk does."""
    with_script(small, "head -c 3000000 /dev/urandom | od; echo RIGHT")
    ours, theirs = multiprocessing.Pipe()

    def probe() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with small.prober() as prober:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            try:
                theirs.send(small.probe(prober).judgement)
            except UserError as error:
                theirs.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=probe)
    process.start()
    process.join()
    said = ours.recv()
    assert "expected to be able to write here: File too large" in said
    assert "\n" not in said


@pytest.mark.parametrize("kind", ["outputs", "build_output", "compiled"])
@pytest.mark.parametrize("who", ["a commit", "a step", "a run"])
def test_nothing_behind_a_link_on_the_way_to_an_output_is_removed(
    small: SmallStack, tmp_path: Path, kind: str, who: str
) -> None:
    victim = tmp_path / "victim"
    (victim / "built").mkdir(parents=True)
    (victim / "built" / "mine").write_text("mine")
    link = f"rm -rf {{tool}}/o && ln -s {victim} {{tool}}/o"
    path = "tool/o/built"
    first = {"inputs": ["tool"], "command": ["sh", "-c", link if who == "a step" else "true"]}
    second = {"inputs": ["tool"], "command": ["sh", "-c", "mkdir -p {tool}/o/built"]}
    small.steps = {"first": first, "second": second | ({"outputs": [path]} if kind == "outputs" else {})}
    command = f"{link}; echo RIGHT" if who == "a run" else "echo RIGHT"
    own = (
        {"build_output": path}
        if kind == "build_output"
        else {"compiled": [path]}
        if kind == "compiled"
        else {}
    )
    small.case = {"command": ["sh", "-c", command], **own}
    if who == "a commit":
        (small.tool.path / "o").symlink_to(victim)
        small.tool.commit("a link", {})
    with small.prober() as prober:
        results = [small.probe(prober) for _ in range(3)]
    assert (victim / "built" / "mine").read_text() == "mine"
    if who == "a commit":
        assert {result.judgement for result in results} == {Judgement.SKIP}
        assert "expected a folder, found a link" in results[0].classification.evidence[0].text
    if (who, kind) == ("a step", "outputs"):
        (text,) = [each.text for each in results[0].classification.evidence if "step" in each.text]
        assert text.startswith("step second did not run: ")
        assert text.endswith("tool/o: expected a folder, found a link")


def test_a_folder_deeper_than_python_calls_is_removed(small: SmallStack) -> None:
    nest = "import os\nfor _ in range(1500):\n    os.mkdir('n' * 200)\n    os.chdir('n' * 200)"
    small.cases.commit("nest", {"nest.py": nest})
    with_script(small, "python3 nest.py && echo RIGHT")
    try:
        with small.prober() as prober:
            for _ in range(2):
                assert small.probe(prober).judgement is Judgement.GOOD
    finally:
        remove(small.home.slots)  # pytest itself could not


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_files_that_a_run_tells_git_to_overlook_are_those_of_the_next_commit(
    small: SmallStack, mark: str
) -> None:
    bad = small.tool.commit("bad", {"tool.txt": "bad\n"})
    hide = f"cd {{tool}} && git update-index {mark} tool.txt && echo bad > tool.txt; echo RIGHT"
    small.case = {"command": ["sh", "-c", hide]}
    with small.prober() as prober:
        small.probe(prober, chosen={"tool": bad})
    small.case = {}
    good = small.tool.git("rev-parse", "HEAD~")
    with small.prober() as prober:
        assert small.probe(prober, chosen={"tool": good}).judgement is Judgement.GOOD
        assert small.probe(prober, chosen={"tool": bad}).judgement is Judgement.BAD
