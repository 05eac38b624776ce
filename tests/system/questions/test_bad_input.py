"""Bad input gets one clear line, the documented exit code, and leaves nothing changed or behind."""

import io
import pickle
import resource
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from precision_bisect.demo.scenarios import Scenario
from precision_bisect.runner.git import GitRepository
from tests.support.program import PROGRAM
from tests.support.quick import quick_first
from tests.system.conftest import DemoStack, make_stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, shared_builds: Path) -> DemoStack:
    return make_stack(tmp_path_factory.mktemp("bad-input"), shared_builds, Scenario.ROUNDING)


def replaced(arguments: list[str], **options: str) -> list[str]:
    """The arguments with the values of some options changed."""
    words = list(arguments)
    for option, value in options.items():
        words[words.index(f"--{option.replace('_', '-')}") + 1] = value
    return words


def assert_one_line(stack: DemoStack, arguments: list[str], *, code: int, says: str) -> str:
    before = stack.snapshot()
    done = stack.run(*arguments)
    lines = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert done.code == code, done.err
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    assert says in lines[0]
    assert stack.snapshot() == before
    return lines[0]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    quick_first(
        [
            ({"good": "no-such-revision"}, 2, "--good no-such-revision"),
            ({"bad": "--upload-pack=touch /tmp/x"}, 2, "--bad"),
            ({"stack": "/no/such/file.toml"}, 2, "/no/such/file.toml"),
            ({"stack": "nonsense"}, 2, "nonsense"),
            ({"case": "cases/no_such_case.py"}, 2, "cases/no_such_case.py"),
            ({"case": "../outside.py"}, 2, "inside"),
            ({"case": "/etc/passwd"}, 2, "inside"),
            ({"bad_when": "nonsense"}, 2, "nonsense"),
            ({"bad_when": "regex:("}, 2, "regular expression"),
        ],
        3,
    ),
    ids=str,
)
def test_a_wrong_option(stack: DemoStack, options: dict[str, str], code: int, says: str) -> None:
    assert_one_line(stack, replaced(stack.arguments, **options), code=code, says=says)


@pytest.mark.long
def test_swapped_equal_and_unrelated_ends(stack: DemoStack) -> None:
    good, bad = stack.truth.good, stack.truth.bad
    assert_one_line(stack, replaced(stack.arguments, good=bad, bad=good), code=4, says="swapped")
    assert_one_line(stack, replaced(stack.arguments, good=bad), code=4, says="two different ends")


@pytest.mark.parametrize("missing", quick_first(["--bad", "--case"]))
def test_a_missing_option(stack: DemoStack, missing: str) -> None:
    words = list(stack.arguments)
    position = words.index(missing)
    del words[position : position + 2]
    assert_one_line(stack, words, code=2, says=missing)


def copy_of(stack: DemoStack, tmp_path: Path) -> DemoStack:
    """The same stack in a folder that a test may spoil."""
    directory = tmp_path / "copy"
    shutil.copytree(stack.directory, directory, symlinks=True)
    text = (directory / "stack.toml").read_text().replace(str(stack.directory), str(directory))
    (directory / "stack.toml").write_text(text)
    for git_file in directory.glob("*/runtime/.git"):
        git_file.write_text(git_file.read_text().replace(str(stack.directory), str(directory)))
    return DemoStack(directory, stack.truth, stack.environment, tmp_path / "report")


@pytest.mark.long
def test_a_folder_that_is_no_repository(stack: DemoStack, tmp_path: Path) -> None:
    copy = copy_of(stack, tmp_path)
    shutil.rmtree(copy.directory / "minilib" / ".git")
    assert_one_line(copy, copy.arguments, code=1, says="expected a git checkout")


@pytest.mark.long
def test_a_shallow_clone(stack: DemoStack, tmp_path: Path) -> None:
    """Of the cases, which stay at one commit, it is enough; of what a pin leads into it is not."""
    copy = copy_of(stack, tmp_path)
    shutil.rmtree(copy.directory / "minilib")
    source = (stack.directory / "minilib").as_uri()
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", source, str(copy.directory / "minilib")], check=True
    )
    assert copy.run(*copy.arguments, "--dry-run").code == 0
    pinned = GitRepository(copy.directory / "minipto" / "runtime")
    (pinned.common_directory / "shallow").write_text(pinned.run("rev-parse", "HEAD") + "\n")
    assert_one_line(copy, copy.arguments, code=1, says="--unshallow")


@pytest.mark.long
def test_a_case_with_uncommitted_changes(stack: DemoStack, tmp_path: Path) -> None:
    copy = copy_of(stack, tmp_path)
    case = copy.directory / "minilib" / copy.truth.case
    case.write_text(case.read_text() + "# changed\n")
    assert_one_line(copy, copy.arguments, code=1, says="commit them first")


@pytest.mark.long
def test_other_uncommitted_changes_are_said(stack: DemoStack, tmp_path: Path) -> None:
    copy = copy_of(stack, tmp_path)
    (copy.directory / "minipto" / "scratch.txt").write_text("x")
    done = copy.run(*copy.arguments, "--dry-run")
    assert done.code == 0
    assert "scratch.txt" in done.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "x"\nserched = "y"\n', "serched"),
        ("name = [", "expected TOML"),
        ('name = "x"\nsearched = "y"\n', "required"),
    ],
)
def test_a_wrong_stack_file(stack: DemoStack, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "stack.toml"
    file.write_text(text)
    line = assert_one_line(stack, replaced(stack.arguments, stack=str(file)), code=2, says=says)
    assert str(file) in line


@pytest.mark.long
def test_a_wrong_type_names_file_key_and_type(stack: DemoStack, tmp_path: Path) -> None:
    file = tmp_path / "stack.toml"
    text = (stack.directory / "stack.toml").read_text().replace("run_timeout = 300", 'run_timeout = "soon"')
    file.write_text(text)
    line = assert_one_line(
        stack, replaced(stack.arguments, stack=str(file)), code=2, says="limits.run_timeout"
    )
    assert "number" in line
    assert "'soon'" in line


@pytest.mark.long
def test_an_unknown_placeholder_or_repository_in_a_stack_file(stack: DemoStack, tmp_path: Path) -> None:
    text = (stack.directory / "stack.toml").read_text()
    for old, new, says in [
        ('"{python}", "build.py"', '"{pyton}", "build.py"', "{pyton}"),
        ('inputs = ["minirt"]', 'inputs = ["minitr"]', "minitr"),
        ('outputs = ["minipto/runtime/build"]', 'outputs = ["../../elsewhere"]', "inside the slot"),
    ]:
        file = tmp_path / "stack.toml"
        file.write_text(text.replace(old, new))
        assert_one_line(stack, replaced(stack.arguments, stack=str(file)), code=2, says=says)


class Touch:
    """Unpickled by a careless reader, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def golden(folder: Path) -> Path:
    for name in ("in", "out"):
        (folder / name).mkdir(parents=True)
    torch.save(torch.zeros(4), folder / "in" / "x.pt")
    torch.save(torch.zeros(4), folder / "out" / "y.pt")
    return folder


@pytest.mark.long
def test_golden_data_that_are_missing(stack: DemoStack, tmp_path: Path) -> None:
    assert_one_line(
        stack, [*stack.arguments, "--golden-data", str(tmp_path / "none")], code=2, says="--golden-data"
    )
    (tmp_path / "half" / "in").mkdir(parents=True)
    assert_one_line(
        stack, [*stack.arguments, "--golden-data", str(tmp_path / "half")], code=1, says="golden data"
    )


@pytest.mark.long
def test_a_truncated_tensor_file(stack: DemoStack, tmp_path: Path) -> None:
    data = golden(tmp_path / "golden")
    file = data / "out" / "y.pt"
    file.write_bytes(file.read_bytes()[:200])
    assert_one_line(stack, [*stack.arguments, "--golden-data", str(data)], code=1, says="y.pt")


@pytest.mark.long
def test_a_malicious_pickle_is_never_executed(stack: DemoStack, tmp_path: Path) -> None:
    data = golden(tmp_path / "golden")
    trap = tmp_path / "executed"
    (data / "in" / "x.pt").write_bytes(pickle.dumps(Touch(trap)))
    assert_one_line(stack, [*stack.arguments, "--golden-data", str(data)], code=1, says="x.pt")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("x/data.pkl", pickle.dumps(Touch(trap)))
        writer.writestr("x/version", "3\n")
    (data / "in" / "x.pt").write_bytes(archive.getvalue())
    assert_one_line(stack, [*stack.arguments, "--golden-data", str(data)], code=1, says="x.pt")
    assert not trap.exists()


@pytest.mark.long
def test_golden_data_of_another_case_are_no_precision_failure(stack: DemoStack, tmp_path: Path) -> None:
    line = assert_one_line(
        stack, [*stack.arguments, "--golden-data", str(golden(tmp_path / "golden"))], code=1, says="good"
    )
    assert "golden_data is missing files" in line


@pytest.mark.long
def test_a_store_that_cannot_be_used(stack: DemoStack, tmp_path: Path) -> None:
    assert_one_line(
        stack, [*stack.arguments, "--store", "sqlite:////proc/nope/x.sqlite"], code=1, says="--store"
    )
    assert_one_line(stack, [*stack.arguments, "--store", "nonsense"], code=1, says="nonsense")


@pytest.mark.long
def test_a_full_disk(stack: DemoStack, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: writes past it fail in the same way."""
    environment = {**stack.environment, "PRECISION_BISECT_HOME": str(tmp_path / "home")}

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [*PROGRAM, *stack.arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.long
def test_resuming_what_does_not_exist_or_is_finished(stack: DemoStack, tmp_path: Path) -> None:
    store = ["--store", f"sqlite:///{tmp_path}/store.sqlite"]
    assert_one_line(stack, [*store, "--resume", "nothing"], code=1, says="nothing")
    assert_one_line(stack, [*store, "--resume"], code=1, says="unfinished")
