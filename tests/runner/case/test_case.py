"""The case's name, and the command that its options at a commit make."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from precision_bisect.runner.case.case import (
    CaseName,
    RunOptions,
    add_predecessors,
    case_command,
    drop_predecessors,
    options_in_help,
    predecessors,
)
from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.stack import Stack
from tests.runner.small_stack import SmallStack

FLAGS = {
    "golden_data": ["--golden-data"],
    "save_data": ["--save-data"],
    "dump": ["--dump-args", "--dump-tensor"],
    "dep_gen": ["--enable-dep-gen"],
    "dump_passes": ["--dump-passes"],
    "runtime_dir": ["--runtime-dir"],
}


@pytest.mark.parametrize(
    ("text", "path", "arguments"),
    [
        ("case.py", "case.py", ()),
        ("./models/case.py --m 4 'two words'", "models/case.py", ("--m", "4", "two words")),
        ("'odd name.py'", "odd name.py", ()),
    ],
)
def test_names(small: SmallStack, text: str, path: str, arguments: tuple[str, ...]) -> None:
    name = CaseName.parse(text, small.stack())
    assert (str(name.path), name.arguments) == (path, arguments)
    assert CaseName.parse(str(name), small.stack()) == name


@pytest.mark.parametrize("text", ["", "   ", "../x.py", "a/../../x.py", "/etc/passwd", "case.py 'open"])
def test_names_that_are_none(small: SmallStack, text: str) -> None:
    with pytest.raises(UsageError, match="--case"):
        CaseName.parse(text, small.stack())


def test_a_file_of_the_checkout_by_its_full_path(small: SmallStack, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small.cases.path)
    for root in (small.cases.path, tmp_path / "link"):
        assert str(CaseName.parse(str(root / "case.sh"), small.stack()).path) == "case.sh"


def test_options_in_help() -> None:
    text = """usage: case.py [-h] [--golden-data DIR] [--dump-args [{0,1}]]
      --save-data,-s  see --golden-data=DIR; not ---odd, a--b nor --Upper
    """
    assert options_in_help(text) == {"--golden-data", "--dump-args", "--save-data"}


def command(
    small: SmallStack, options: RunOptions, offered: set[str], *, harness: bool, case: str = "case.py --m 4"
) -> tuple[list[str], tuple[str, ...]]:
    small.case = {
        "command": ["{python}", "{case}", "-p", "{platform}", "{{literal}}"],
        "harness": harness,
        "flags": FLAGS,
    }
    stack: Stack = small.stack()
    values: Mapping[str, str] = {"python": "PY", "case": "/slot/case.py", "platform": "sim"}
    made = case_command(
        stack,
        CaseName.parse(case, stack),
        options,
        offered=frozenset(offered),
        outcome=Path("/out.json"),
        values=values,
    )
    return ["SHIM" if word.endswith("shim.py") else word for word in made.argv], made.missing


ALL = RunOptions(
    golden_data=Path("/g"),
    save_data=True,
    dump_passes=True,
    dump_level=2,
    dep_gen=True,
    runtime_dir=Path("/r"),
)


def test_a_case_that_offers_everything(small: SmallStack) -> None:
    offered = {word for words in FLAGS.values() for word in words}
    own = ["--golden-data", "/g", "--save-data", "--dump-passes", "--dump-args", "2"]
    own += ["--enable-dep-gen", "--runtime-dir", "/r"]
    argv, missing = command(small, ALL, offered, harness=False)
    assert argv == ["PY", "/slot/case.py", "-p", "sim", "{literal}", "--m", "4", *own]
    assert missing == ()
    argv, missing = command(small, ALL, offered, harness=True)
    shim = ["SHIM", "--outcome", "/out.json", "--", "/slot/case.py"]
    assert argv == ["PY", *shim, "-p", "sim", "{literal}", "--m", "4", *own]
    assert missing == ()


def test_a_case_that_offers_nothing(small: SmallStack) -> None:
    argv, missing = command(small, ALL, set(), harness=False)
    assert argv == ["PY", "/slot/case.py", "-p", "sim", "{literal}", "--m", "4"]
    assert len(missing) == 6
    argv, missing = command(small, ALL, set(), harness=True)
    shim = argv[1 : argv.index("--")]
    assert shim[:5] == ["SHIM", "--outcome", "/out.json", "--golden-data", "/g"]
    assert shim.count("--dump-args") == 1
    assert missing == ()


@pytest.mark.parametrize(
    ("offered", "spelling"),
    [
        ({"--dump-tensor"}, "--dump-tensor"),
        ({"--dump-args"}, "--dump-args"),
        ({"--dump-tensor", "--dump-args"}, "--dump-args"),
    ],
)
def test_a_renamed_flag_is_given_in_the_spelling_of_the_commit(
    small: SmallStack, offered: set[str], spelling: str
) -> None:
    argv, _ = command(small, RunOptions(dump_level=1), offered, harness=True)
    assert argv[-2:] == [spelling, "1"]
    assert "--dump-args" not in argv[: argv.index("--")]


def test_predecessors_get_the_stack_s_words_and_none_of_the_options(
    small: SmallStack, tmp_path: Path
) -> None:
    small.case = {"command": ["PY", "{case}", "-p", "{platform}"], "harness": True, "flags": FLAGS}
    full = str(small.cases.path / "in" / "b.py")
    stack = add_predecessors(small.stack(), ["a.py --m 4", f"'{full}' 'two words'"])
    assert [str(each) for each in predecessors(stack)] == ["a.py --m 4", "in/b.py 'two words'"]
    made = case_command(
        stack,
        CaseName.parse("case.py", stack),
        ALL,
        offered=frozenset(["--save-data"]),
        outcome=tmp_path / "of-this-run.json",
        values={"case": "/slot/cases/case.py", "cases": "/slot/cases", "platform": "sim"},
    )
    shim, own = made.argv[2 : made.argv.index("--")], made.argv[made.argv.index("--") + 1 :]
    after = [word for option, word in pairwise(shim) if option == "--after"]
    assert after == ["/slot/cases/a.py -p sim --m 4", "/slot/cases/in/b.py -p sim 'two words'"]
    assert own == ("/slot/cases/case.py", "-p", "sim", "--save-data")
    assert made.begin_line is not None
    assert "of-this-run.json" in made.begin_line
    assert drop_predecessors(stack) == small.stack()


@pytest.mark.parametrize("text", ["", "../x.py", "/etc/passwd", "a.py 'open"])
def test_predecessors_that_are_none(small: SmallStack, text: str) -> None:
    small.case = {"command": ["sh", "{case}"], "harness": True}
    with pytest.raises(UsageError, match="--after"):
        add_predecessors(small.stack(), [text])


def test_only_a_case_under_the_shim_has_predecessors(small: SmallStack) -> None:
    assert add_predecessors(small.stack(), []) == small.stack()
    with pytest.raises(
        UsageError, match=r"--after a\.py: expected .*shim.*, found none in stack small; leave"
    ):
        add_predecessors(small.stack(), ["a.py"])
    small.case = {"after": ["a.py"]}
    with pytest.raises(ValueError, match=r"case\.after: expected a case that runs under the harness's shim"):
        small.stack()
