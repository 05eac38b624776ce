"""Options that a checkout gives, in a file of its own or in its pyproject.toml."""

from contextlib import suppress
from pathlib import Path

import click
import click.testing
import pytest

from precision_bisect.bisect.cli import doctor, main
from precision_bisect.bisect.options import BisectOptions
from precision_bisect.reduce.reduce_cli import ReduceOptions
from precision_bisect.reduce.reduce_cli import main as reduce
from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.settings import checkout_root, read_defaults, trust_file
from precision_bisect.runner.workspace.home import Home
from tests.support.trusted import write_trusted

SAID = """
stack = "pypto"
platform = "a2a3sim"
device = 3
jobs = 4
budget = "2h"
timeout = 20
confidence = 0.9
store = "sqlite:///there?timeout=5"
backend = "dask"
build-store = "s3://team/builds"
[repository]
pypto-lib = "../lib"
"""


@pytest.fixture
def checkout(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    (root / ".git").mkdir(parents=True)
    (root / "sub" / "deep").mkdir(parents=True)
    monkeypatch.chdir(root / "sub" / "deep")
    return root


def bisect_options(*words: str) -> BisectOptions:
    return BisectOptions(**main.make_context("bisect-precision", list(words)).params)


def test_what_the_checkout_says_need_not_be_typed(checkout: Path) -> None:
    write_trusted(checkout / "precision-bisect.toml", SAID)
    options = bisect_options("--bad", "b")
    assert (options.stack, options.platform, options.device) == ("pypto", "a2a3sim", 3)
    assert options.repository == (f"pypto-lib={checkout}/../lib",)
    assert (options.jobs, options.budget, options.timeout, options.confidence) == (4, 7200, 20, 0.9)
    assert (options.store, options.backend) == (f"sqlite:///{checkout}/there?timeout=5", "dask")
    assert options.build_store == "s3://team/builds"
    assert doctor.make_context("doctor", []).params["stack"] == "pypto"
    of_reduce = reduce.make_context("reduce", ["build"]).params
    assert (of_reduce["stack"], of_reduce["jobs"], of_reduce["platform"]) == ("pypto", 4, "a2a3sim")


def test_a_bisection_that_is_named_says_itself_what_it_ran_with(checkout: Path) -> None:
    write_trusted(checkout / "precision-bisect.toml", SAID)
    given = reduce.make_context("reduce", ["--bisection", "x"]).params
    assert (given["stack"], given["repository"], given["platform"], given["jobs"]) == (None, (), None, 4)
    assert ReduceOptions(**given).options_set_by_bisection == ()


def test_what_is_typed_wins(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trusted(checkout / "precision-bisect.toml", SAID)
    options = bisect_options("--bad", "b", "-j", "2", "--repository", "a=x", "-p", "a5")
    assert (options.jobs, options.repository, options.platform) == (2, ("a=x",), "a5")
    monkeypatch.setenv("PRECISION_BISECT_STORE", "sqlite:///mine")
    assert bisect_options("--bad", "b").store == "sqlite:///mine"


@pytest.mark.parametrize("words", [["--stack", "simpler"], ["--stack=simpler"]])
def test_another_stack_has_its_own_repositories_and_platforms(checkout: Path, words: list[str]) -> None:
    write_trusted(checkout / "precision-bisect.toml", SAID)
    options = bisect_options("--bad", "b", *words)
    assert (options.stack, options.platform, options.device, options.repository) == ("simpler", None, 0, ())
    assert options.jobs == 4
    same = bisect_options("--bad", "b", "--stack", "pypto")
    assert (same.platform, len(same.repository)) == ("a2a3sim", 1)


def test_a_time_is_written_as_it_is_typed(checkout: Path) -> None:
    write_trusted(checkout / "precision-bisect.toml", 'timeout = "5m"\nbudget = 90\n')
    options = bisect_options("--bad", "b")
    assert (options.timeout, options.budget) == (300.0, 90.0)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("stack", "~/own.toml", "{home}/own.toml"),
        ("stack", "sub/own.toml", "{checkout}/sub/own.toml"),
        ("store", "sqlite:////full", "sqlite:////full"),
        ("store", "sqlite:///:memory:", "sqlite:///:memory:"),
        ("store", "postgresql://host/name", "postgresql://host/name"),
        ("build-store", "builds", "{checkout}/builds"),
        ("build-store", "~/builds", "{home}/builds"),
        ("build-store", "https://host/builds", "https://host/builds"),
    ],
)
def test_paths_count_from_the_folder_of_the_settings(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, text: str, value: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_trusted(checkout / "precision-bisect.toml", f'{key} = "{text}"\n')
    for folder in (tmp_path, checkout / "sub"):
        write_trusted(folder / "own.toml", "")
    expected = value.format(home=tmp_path, checkout=checkout)
    assert getattr(bisect_options("--bad", "b"), key.replace("-", "_")) == expected


@pytest.mark.parametrize("typed", ["./own.toml", "../deep/own.toml", "{deep}/own.toml"])
def test_the_same_stack_file_may_be_typed_in_another_way(checkout: Path, typed: str) -> None:
    write_trusted(
        checkout / "precision-bisect.toml", 'stack = "sub/deep/own.toml"\nrepository.pypto-lib = "../lib"\n'
    )
    (checkout / "sub" / "deep" / "own.toml").touch()
    options = bisect_options("--bad", "b", "--stack", typed.format(deep=Path.cwd()))
    assert options.repository == (f"pypto-lib={checkout}/../lib",)
    assert bisect_options("--bad", "b", "--stack", "other.toml").repository == ()


def test_a_table_of_pyproject(checkout: Path) -> None:
    """The nearest file counts; the file of our own is looked at first."""
    write_trusted(checkout / "pyproject.toml", '[tool.precision-bisect]\nstack = "stacks/own.toml"\n')
    (checkout / "stacks").mkdir()
    write_trusted(checkout / "stacks" / "own.toml", "")
    assert bisect_options("--bad", "b").stack == str(checkout / "stacks" / "own.toml")
    write_trusted(checkout / "sub" / "pyproject.toml", '[project]\nname = "precision-bisect-user"\n')
    write_trusted(checkout / "sub" / "precision-bisect.toml", "jobs = 7\n")
    assert (bisect_options("--bad", "b").stack, bisect_options("--bad", "b").jobs) == (None, 7)


def test_a_pyproject_of_any_shape_is_passed_by(checkout: Path) -> None:
    for text in ("tool = 3\n# precision-bisect\n", "[tool]\nprecision = 'bisect' # precision-bisect\n"):
        write_trusted(checkout / "pyproject.toml", text)
        assert bisect_options("--bad", "b").stack is None
    write_trusted(checkout / "pyproject.toml", "[tool]\nprecision-bisect = 3\n")
    with pytest.raises(UsageError, match=r"tool.precision-bisect: expected a table, found 3"):
        read_defaults(Path.cwd())


def test_a_folder_that_is_gone(checkout: Path) -> None:
    (checkout / "sub" / "deep").rmdir()
    with pytest.raises(click.UsageError, match="expected a current folder, found it removed"):
        bisect_options("--bad", "b")


def test_nothing_is_read_from_outside_of_the_checkout(checkout: Path) -> None:
    write_trusted(checkout.parent / "precision-bisect.toml", "jobs = 7\n")
    assert bisect_options("--bad", "b").jobs == 1
    assert checkout_root(Path.cwd()) == checkout
    assert checkout_root(checkout.parent) == checkout.parent


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stak = 'pypto'\n", "precision-bisect.toml: stak: unknown key: did you mean stack?"),
        ("jobs = 'many'\n", "jobs: expected a whole number, found 'many'"),
        ("jobs = 0\n", "jobs: expected it to be greater than or equal to 1, found 0"),
        ("repository = ['a=b']\n", "repository: expected a table"),
        ("stack = [", "expected TOML"),
        ("\udcff", "expected a file that can be read: it is no UTF-8 text"),
    ],
)
def test_a_wrong_file_is_a_usage_error(checkout: Path, text: str, says: str) -> None:
    file = checkout / "precision-bisect.toml"
    file.write_text(text, errors="surrogateescape")
    with suppress(UsageError):
        trust_file(file)
    with pytest.raises(UsageError) as caught:
        read_defaults(Path.cwd())
    assert says in str(caught.value)
    with pytest.raises(click.UsageError, match="precision-bisect"):
        bisect_options("--bad", "b")
    assert "--bad REV" in click.testing.CliRunner().invoke(main, ["--help"]).output
