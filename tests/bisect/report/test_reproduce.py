"""The scripts that show an answer again, run for real."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.bisect.ask.predicate import Predicate, predicate_stack
from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.report.reproduce import reproduction_script
from precision_bisect.runner.overlays import OverlayReader
from precision_bisect.runner.renames import renames_name
from precision_bisect.runner.stack import (
    Case,
    Environment,
    GitlinkPin,
    Platform,
    Rename,
    Repository,
    Stack,
    Step,
    Tool,
)
from precision_bisect.runner.workspace.home import Home
from precision_bisect.runner.workspace.slot import Workspace
from tests.bisect.report.stored_bisection import StoredBisection, two_repositories
from tests.conftest import TestRepository

CASE = """\
import os, sys
from pathlib import Path
value = (Path(__file__).parent.parent / "compiler" / "out" / "built").read_text()
print(value, sys.argv[1:], os.environ["MODE"], os.environ.get("CXX"))
sys.exit(value.count("bad"))
"""


def request(stack: Stack, folder: Path, *, repository: str, case: str | None) -> BisectRequest:
    return BisectRequest(
        stack=stack,
        repository=repository,
        fixed={},
        good="0" * 40,
        bad="1" * 40,
        case=case,
        platform=next(iter(stack.platforms)),
        device=3,
        bad_when="mismatch",
        golden_data=None,
        timeout=None,
        confidence=0.99,
        output=folder,
    )


def run(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = folder / "script.sh"
    file.write_text(script)
    return subprocess.run(["sh", str(file), *arguments], capture_output=True, text=True, check=False)


def state(repository: TestRepository) -> list[str]:
    return [
        repository.git(*words)
        for words in (
            ("status", "--porcelain"),
            ("for-each-ref",),
            ("worktree", "list"),
            ("rev-parse", "HEAD"),
            ("config", "--local", "--list"),
        )
    ]


class BuiltStack:
    """A compiler with a runtime inside it, both of which go into what is built; and a case."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runtime = TestRepository(root / "runtime checkout")
        self.old = self.runtime.commit("old", {"value": "good"})
        self.new = self.runtime.commit("new", {"value": "bad"})
        self.compiler = TestRepository(root / "compiler")
        self.compiler.git("update-index", "--add", "--cacheinfo", f"160000,{self.old},runtime")
        self.compiler.git("commit", "--quiet", "--message", "compiler")
        self.cases = TestRepository(root / "it's cases")
        self.case = self.cases.commit("case", {"softmax.py": CASE})
        self.stack = Stack(
            name="built",
            searched="compiler",
            repositories={
                "runtime": Repository(path=self.runtime.path),
                "compiler": Repository(path=self.compiler.path),
                "cases": Repository(path=self.cases.path),
            },
            pins={"runtime": GitlinkPin(kind="gitlink", holder="compiler", path="runtime", target="runtime")},
            environment=Environment(variables={"MODE": "sim $HOME `id`"}, matters=("CXX",)),
            steps={
                "make": Step(command=("mkdir", "out"), cwd="{compiler}", inputs=("compiler",)),
                "copy": Step(command=("cp", "{runtime}/value", "{compiler}/out/built"), inputs=("runtime",)),
            },
            case=Case(
                repository="cases",
                command=("{python}", "{case}", "-d", "{device}"),
                cwd="{slot}",
                harness=False,
            ),
            platforms={"sim": Platform()},
        )

    def script(
        self, runtime: str, *, recorded: Sequence[str] = (), case: str = "softmax.py", renamed: str = ""
    ) -> str:
        return reproduction_script(
            request(self.stack, self.root, repository="compiler", case=case),
            about="shows it",
            revisions={
                "runtime": runtime,
                "compiler": self.compiler.git("rev-parse", "HEAD"),
                "cases": self.case,
                renames_name("compiler"): renamed,
            },
            recorded=recorded,
            environment={"cpu": "Example", "variable CXX": "my c++"},
        )


@pytest.fixture
def built(tmp_path: Path) -> BuiltStack:
    return BuiltStack(tmp_path)


def test_scripts_build_and_run_both_sides_and_touch_no_checkout(built: BuiltStack, tmp_path: Path) -> None:
    repositories = (built.runtime, built.compiler, built.cases)
    before = [state(repository) for repository in repositories]
    bad = run(built.script(built.new), tmp_path, str(tmp_path / "bad side"))
    good = run(built.script(built.old), tmp_path, str(tmp_path / "good side"))
    assert (bad.returncode, bad.stdout) == (1, "bad ['-d', '3'] sim $HOME `id` my c++\n"), bad.stderr
    assert (good.returncode, good.stdout) == (0, "good ['-d', '3'] sim $HOME `id` my c++\n"), good.stderr
    assert [state(repository) for repository in repositories] == before
    assert (tmp_path / "bad side" / "compiler" / "runtime" / "value").read_text() == "bad"


@pytest.mark.parametrize("shell", [name for name in ("sh", "bash") if shutil.which(name)])
def test_a_quote_in_any_path_stays_a_quote(tmp_path: Path, shell: str) -> None:
    root = tmp_path / "it's } \" $here"
    root.mkdir()
    built = BuiltStack(root)
    python = root / "it's a python"
    python.symlink_to(sys.executable)
    environment = built.stack.environment.model_copy(update={"python": str(python)})
    built.stack = built.stack.model_copy(update={"environment": environment})
    file = root / "script.sh"
    file.write_text(built.script(built.old))
    done = subprocess.run([shell, str(file), str(root / "good's side")], capture_output=True, text=True)
    assert done.stdout == "good ['-d', '3'] sim $HOME `id` my c++\n", done.stderr
    assert f"{python} -m venv" in (root / "good's side" / "venv" / "pyvenv.cfg").read_text()


def test_without_a_folder_a_temporary_one_is_made_and_removed(
    built: BuiltStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case ran there, as it would elsewhere; what it may not write is removed too."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    steps = {
        **built.stack.steps,
        "lock": Step(command=("chmod", "-R", "a-w", "{compiler}/out"), inputs=("compiler",)),
    }
    built.stack = built.stack.model_copy(update={"steps": steps})
    done = run(built.script(built.new), tmp_path)
    assert (done.returncode, done.stdout) == (1, "bad ['-d', '3'] sim $HOME `id` my c++\n"), done.stderr
    assert f"working in {temporary}/reproduce-" in done.stderr
    assert "to keep it, name a folder: sh " in done.stderr
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize("words", [("one", "two"), ("script.sh",), ("--help",), ("",)])
def test_what_is_no_new_folder_is_answered_with_the_usage(
    words: tuple[str, ...], built: BuiltStack, tmp_path: Path
) -> None:
    file = tmp_path / "script.sh"
    file.write_text(built.script(built.old))
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(["sh", "script.sh", *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: sh script.sh [DIR]    DIR: a new folder to work in\n"
    assert sorted(tmp_path.iterdir()) == before


def test_a_script_that_is_ended_leaves_nothing(
    built: BuiltStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    ends = Step(command=("sh", "-c", "kill -TERM 0"), inputs=("compiler",))
    built.stack = built.stack.model_copy(update={"steps": {**built.stack.steps, "ends": ends}})
    file = tmp_path / "script.sh"
    file.write_text(built.script(built.new))
    done = subprocess.run(
        ["sh", str(file)], start_new_session=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 143, done.stderr
    assert "working in" in done.stderr
    assert not [*temporary.iterdir()]


def test_an_interpreter_that_is_gone_is_told_and_another_takes_its_place(
    built: BuiltStack, tmp_path: Path
) -> None:
    """That of the runs may have lain in a cache."""
    gone = tmp_path / "cache of tools" / "python"
    environment = built.stack.environment.model_copy(update={"python": str(gone)})
    built.stack = built.stack.model_copy(update={"environment": environment})
    done = run(built.script(built.new), tmp_path, str(tmp_path / "bad"))
    assert (done.returncode, done.stdout[:3]) == (1, "bad"), done.stderr
    assert f"the interpreter of the runs, {gone}, is gone; python3 takes its place" in done.stderr


def test_a_failing_step_ends_the_script(built: BuiltStack, tmp_path: Path) -> None:
    (tmp_path / "taken" / "compiler").mkdir(parents=True)
    (tmp_path / "taken" / "compiler" / "file").write_text("")
    done = run(built.script(built.new), tmp_path, str(tmp_path / "taken"))
    assert done.returncode not in (0, 1)
    assert done.stdout == ""


def test_arguments_of_the_case_stay_one_word_each(built: BuiltStack, tmp_path: Path) -> None:
    script = built.script(built.new, case="softmax.py '$(touch owned)' 'a b' ';'")
    done = run(script, tmp_path, str(tmp_path / "bad"))
    assert "['-d', '3', '$(touch owned)', 'a b', ';']" in done.stdout
    assert not list(tmp_path.rglob("owned"))


def test_a_commit_that_the_checkout_has_not_is_fetched_from_its_origin(
    built: BuiltStack, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    built.cases.git("clone", "--quiet", str(built.runtime.path), str(clone))
    newest = built.runtime.commit("newest", {"value": "bad bad"})
    repositories = {**built.stack.repositories, "runtime": Repository(path=clone)}
    built.stack = built.stack.model_copy(update={"repositories": repositories})
    done = run(built.script(newest), tmp_path, str(tmp_path / "bad"))
    assert done.returncode == 2, done.stderr


def recorded(*own: str, shim: Sequence[str] = ()) -> tuple[str, ...]:
    return ("/slot/python", "/tool/shim.py", "--outcome", "o.json", *shim, "--", "/slot/softmax.py", *own)


def test_frozen_data_go_to_the_case_where_it_took_them(tmp_path: Path) -> None:
    stack = two_repositories(tmp_path)
    script = reproduction_script(
        request(stack, tmp_path, repository="compiler", case="examples/softmax.py --rows 7"),
        about="",
        revisions={},
        recorded=recorded("-p", "a2a3sim", "--golden-data", "/frozen data"),
        environment={},
    )
    assert script.splitlines()[-1] == (
        '"$root"/venv/bin/python "$root"/cases/examples/softmax.py -p a2a3sim -d 3 --rows 7 '
        "--golden-data '/frozen data'"
    )


def test_frozen_data_go_to_the_shim_where_the_case_has_no_option(tmp_path: Path) -> None:
    stack = two_repositories(tmp_path)
    script = reproduction_script(
        request(stack, tmp_path, repository="compiler", case="examples/softmax.py"),
        about="",
        revisions={},
        recorded=recorded(shim=("--golden-data", "/frozen")),
        environment={},
    )
    assert 'shim.py --outcome "$root"/outcome.json --golden-data /frozen -- "$root"/cases' in script


def test_a_predicate_runs_in_the_worktree(repository: TestRepository, tmp_path: Path) -> None:
    commit = repository.commit("broken", {"value": "bad"})
    command = Predicate(words=("grep", "{good}", "value"), folder=PurePosixPath())
    stack = command.replace_case(predicate_stack(repository.path), "repository")
    script = reproduction_script(
        request(stack, tmp_path, repository="repository", case=None),
        about="",
        revisions={"repository": commit},
        recorded=("grep", "{good}", "value"),
        environment={},
    )
    assert "venv" not in script
    assert run(script, tmp_path, str(tmp_path / "there")).returncode == 1


def test_variables_of_tools_are_set_where_the_run_found_the_tool(built: BuiltStack) -> None:
    tools = {
        name: Tool(command=(name, "--version"), variables={f"BY_{name.upper()}": "{compiler}/x y"})
        for name in ("here", "gone", "later")
    }
    environment = built.stack.environment.model_copy(update={"tools": tools})
    script = reproduction_script(
        request(
            built.stack.model_copy(update={"environment": environment}),
            built.root,
            repository="compiler",
            case=None,
        ),
        about="shows it",
        revisions={},
        recorded=("true",),
        environment={"tool here": "here 1.0", "tool gone": "not found"},
    )
    assert [line for line in script.splitlines() if "BY_" in line] == [
        "export BY_HERE=\"$root\"'/compiler/x y'"
    ]


def test_about_stays_a_comment(built: BuiltStack) -> None:
    built.script(built.new)
    script = reproduction_script(
        request(built.stack, built.root, repository="compiler", case="softmax.py"),
        about="signature\ntouch owned",
        revisions={},
        recorded=(),
        environment={},
    )
    assert script.splitlines()[1] == "# signature touch owned"


def test_sides_without_a_command_fall_back_on_the_stack_file(culprit: StoredBisection) -> None:
    """What a build failure recorded is no command; the good side still has one."""
    side = culprit.report().reproduce.good
    assert side is not None
    assert side.script.endswith("-p a2a3sim -d 0 --golden-data /golden\n")


def test_variables_of_the_case_are_set_for_the_run_alone(built: BuiltStack, tmp_path: Path) -> None:
    built.stack = built.stack.add_case_variables({"MODE": "it's {one}"})
    script = built.script(built.old)
    assert script.index("MODE='sim") < script.index("# step copy") < script.index("MODE='it'")
    done = run(script, tmp_path, str(tmp_path / "side"))
    assert "it's {one}" in done.stdout, done.stderr


def test_overlays_are_laid_over_in_scripts_too(built: BuiltStack, tmp_path: Path) -> None:
    second = built.cases.commit("second", {"softmax.py": CASE, "lib/of.txt": "of a revision"})
    (built.cases.path / "softmax.py").write_text(f"print('on disk')\n{CASE}")
    workspace = Workspace(built.stack, Home(cache=tmp_path / "cache", state=tmp_path / "state"))
    reader = OverlayReader(
        built.stack, workspace.repositories, workspace.clones, Path(built.cases.path), "compiler"
    )
    built.stack = reader.apply_overlays(["softmax.py", f"lib@{second}"])
    done = run(built.script(built.old), tmp_path, str(tmp_path / "side"))
    assert done.stdout.startswith("on disk\n"), done.stderr
    assert (tmp_path / "side" / "cases" / "lib" / "of.txt").read_text() == "of a revision"


@pytest.mark.parametrize("overlay", [None, "softmax.py"])
def test_files_of_other_times_get_their_names_in_scripts_too(
    built: BuiltStack, tmp_path: Path, overlay: str | None
) -> None:
    """Those of the case's repository, and of what is laid over another one."""
    commit = built.compiler.commit("rename", {"softmax.py": "y"})
    rules = {
        "repository": "compiler",
        "commit": commit,
        "old": "rows",
        "new": "lines",
        "keyword_of": ("dict",),
    }
    case = f"import sys; print(dict(rows=1), 'rows'); {CASE}"
    (built.compiler if overlay else built.cases).commit("case", {"softmax.py": case})
    built.case = built.cases.git("rev-parse", "HEAD")
    renames: dict[str, object] = {"renames": (Rename.model_validate(rules),)}
    if overlay:
        workspace = Workspace(built.stack, Home(cache=tmp_path / "cache", state=tmp_path / "state"))
        reader = OverlayReader(
            built.stack, workspace.repositories, workspace.clones, Path(built.compiler.path), "compiler"
        )
        of_compiler = built.stack.case.model_copy(update={"repository": "compiler"})
        renames |= {
            "case": of_compiler,
            "repositories": reader.apply_overlays(["softmax.py@HEAD"]).repositories,
        }
    built.stack = built.stack.model_copy(update=renames)
    script = built.script(built.old, renamed=commit)
    done = run(script, tmp_path, str(tmp_path / "a side"))
    assert done.stdout.startswith("{'lines': 1} rows\n"), done.stderr
    done = run(built.script(built.old), tmp_path, str(tmp_path / "other side"))
    assert done.stdout.startswith("{'rows': 1} rows\n"), done.stderr


def test_what_runs_before_the_case_does_so_in_scripts_too(built: BuiltStack, tmp_path: Path) -> None:
    built.case = built.cases.commit("other", {"of/other.py": "import sys; sys.kept = sys.argv"})
    built.case = built.cases.commit("case", {"softmax.py": "import sys; print(sys.kept[1:], sys.argv[1:])"})
    case = built.stack.case.model_copy(update={"harness": True, "after": ("of/other.py 'a b'",)})
    built.stack = built.stack.model_copy(update={"case": case})
    ran = (
        "/slot/python",
        "/tool/shim.py",
        "--outcome",
        "o.json",
        "--after",
        "of/other.py",
        "--",
        "/slot/softmax.py",
    )
    done = run(built.script(built.old, recorded=ran), tmp_path, str(tmp_path / "a side"))
    assert done.stdout.splitlines()[-1] == "['-d', '3', 'a b'] ['-d', '3']", done.stderr
