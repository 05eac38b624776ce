"""Scripts that run before the case, in real processes: their state stays, and nothing else of them counts."""

from pathlib import Path

import pytest

from precision_bisect.runner.case.shim import case_begins_line
from tests.runner.case.test_shim import Ran, received, run_shimmed, write_case

CASE = """
import sys, golden
print("kept", getattr(golden, "KEPT", None), sys.argv, __name__, __file__)
result = golden.run(None, [], golden_fn=print)
sys.exit(0 if not hasattr(golden, "KEPT") else 4)
"""
LEAVES = "import sys, golden\ngolden.KEPT = sys.argv\nprint('other', sys.argv, __name__, __file__)\n"


def behind(text: str) -> str:
    """What is printed behind the line before the case."""
    _, line, own = text.partition(f"\n{case_begins_line('outcome.json')}\n")
    assert line, text
    return own


def run_after(folder: Path, *others: str, case: str = CASE, options: tuple[str, ...] = ()) -> Ran:
    write_case(folder, case, era=None if (folder / "lib").exists() else "newest")
    after = (word for other in others for word in ("--after", other))
    return run_shimmed(folder, "case.py", "-p", "sim", options=(*options, *after))


def test_state_that_another_leaves_makes_the_case_fail(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(LEAVES)
    alone = run_after(tmp_path)
    assert (alone.returncode, len(alone.calls)) == (0, 1)
    assert alone.stdout == f"kept None ['case.py', '-p', 'sim'] __main__ {tmp_path}/case.py\n"
    after = run_after(tmp_path, "other.py 'two words'")
    assert (after.returncode, len(after.calls)) == (4, 1)
    assert f"other ['other.py', 'two words'] __main__ {tmp_path}/other.py\n" in after.stdout
    own = behind(after.stdout)
    assert own == f"kept ['other.py', 'two words'] ['case.py', '-p', 'sim'] __main__ {tmp_path}/case.py\n"
    assert "other.py: ran before the case, and ended with exit code 0" in after.stderr
    assert behind(after.stderr) == ""


@pytest.mark.parametrize(
    ("text", "ended", "printed"),
    [
        ("raise ValueError('of the other')", "ValueError", "ValueError: of the other"),
        ("import sys; sys.exit(3)", "exit code 3", ""),
        ("import sys; sys.exit('no board')", "exit code 1", "no board"),
        ("class Skipped(BaseException): pass\nraise Skipped", "Skipped", "Skipped"),
        ("x = = 1", "SyntaxError", "SyntaxError"),
        ("import sys; sys.stdout.write('half a line'); sys.stdout = None", "exit code 0", ""),
        ("import ctypes; ctypes.CDLL(None).printf(b'of a library')", "exit code 0", ""),
    ],
)
def test_however_another_ends_the_case_runs(tmp_path: Path, text: str, ended: str, printed: str) -> None:
    (tmp_path / "other.py").write_text(text)
    case = "import os, golden\ngolden.run(None, [], golden_fn=print)\nos.write(1, b'the case')\n"
    ran = run_after(tmp_path, "other.py", case=case)
    assert (ran.returncode, len(ran.calls)) == (0, 1)
    assert f"other.py: ran before the case, and ended with {ended}\n" in ran.stderr
    assert printed in ran.stderr
    assert "shim.py" not in ran.stderr
    assert (behind(ran.stdout), behind(ran.stderr)) == ("the case", "")


def test_calls_of_another_get_no_settings_and_are_not_told(tmp_path: Path) -> None:
    call = "import golden\ngolden.PLAN.append({'passed': False, 'error': 'of the other'})\ngolden.run(None, [])\n"
    (tmp_path / "other.py").write_text(call)
    ran = run_after(
        tmp_path, "other.py", "other.py", options=("--golden-data", "/frozen", "--dump-args", "2")
    )
    (told,) = ran.calls
    assert told.passed
    assert told.applied == {"golden_data": "/frozen", "dump_args": 2}
    first, second, own = received(tmp_path)
    assert first == second
    assert "/frozen" not in first.values()
    assert own["golden_data"] == "/frozen"


def test_they_run_in_order_each_with_its_own_folder_first_in_the_path(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of_{name}.py").write_text(f"print('{name}')")
        (tmp_path / name / "other.py").write_text(f"import of_{name}")
    case = "try:\n    import of_one_more\nexcept ImportError:\n    import sys; print(sys.path[0])\n"
    ran = run_after(tmp_path, "two/other.py", "one/other.py", case=case)
    before, own = ran.stdout.split(case_begins_line("outcome.json"))
    assert before.split() == ["two", "one"]
    assert own.split() == [str(tmp_path)]
    paths = run_after(tmp_path, "two/other.py", case="import sys; print(*sys.path, sep='\\n')")
    assert str(tmp_path / "two") not in behind(paths.stdout).splitlines()


@pytest.mark.parametrize(
    ("text", "code"),
    [("import os; os._exit(9)", 9), ("raise KeyboardInterrupt", -2), ("import os; os.remove('third.py')", 2)],
)
def test_where_another_ends_the_process_the_case_does_not_begin(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "other.py").write_text(text)
    (tmp_path / "third.py").write_text("")
    ran = run_after(tmp_path, "other.py", "third.py")
    assert ran.returncode == code
    assert case_begins_line("outcome.json") not in ran.stdout + ran.stderr
    assert ran.calls == ()
    assert ran.outcome is not None
    assert ran.outcome.began is None


@pytest.mark.parametrize("ends", ["pass", "raise SystemExit(5)", "raise ValueError('of the child')"])
def test_a_child_that_another_forks_does_not_run_the_case(tmp_path: Path, ends: str) -> None:
    text = f"import os\nif os.fork() == 0:\n    {ends}\nelse:\n    print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    (tmp_path / "other.py").write_text(text)
    ran = run_after(tmp_path, "other.py", case="print('the case')")
    codes = {"pass": "0", "raise SystemExit(5)": "5"}
    before, own = ran.stdout.split(case_begins_line("outcome.json"))
    assert before.split() == [codes.get(ends, "1")]
    assert own.split() == ["the", "case"]
    assert ran.returncode == 0


def test_folders_that_another_made_are_older_than_the_case(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import os; os.mkdir('of the other')")
    ran = run_after(tmp_path, "other.py", case="import os; os.mkdir('of the case')")
    assert ran.outcome is not None
    assert ran.outcome.began is not None
    made = (tmp_path / "of the other").stat().st_mtime_ns
    assert made <= ran.outcome.began <= (tmp_path / "of the case").stat().st_mtime_ns
    assert run_after(tmp_path, case="").outcome == ran.outcome.model_copy(update={"began": None})
