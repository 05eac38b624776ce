"""`nightly` as a command: what `--keep` asks for before it keeps anything, and how a night goes on."""

from dataclasses import replace
from pathlib import Path

import pytest

from precision_bisect.bisect.nightly import night
from precision_bisect.bisect.nightly.night import run_keep
from precision_bisect.bisect.options import NightlyOptions
from precision_bisect.runner.workspace.home import Home

_STACK = """
name = "plain"
searched = "tool"
repositories.tool.path = "tool"
platforms.host = {}
[case]
repository = "tool"
command = ["sh", "{case}"]
cwd = "{tool}"
harness = false
[[verdicts]]
verdict = "pass"
pattern = '^PASSED$'
"""


@pytest.fixture
def options(tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> NightlyOptions:
    """Those of a job that has had no night."""
    monkeypatch.delenv("PRECISION_BISECT_STORE", raising=False)
    home.make()
    (tmp_path / "stack.toml").write_text(_STACK)
    file = tmp_path / "night.toml"
    file.write_text('job = "try"\nstack = "stack.toml"\ncases = ["a.sh"]\nplatforms.host = {}\n')
    return NightlyOptions(
        file=file,
        store=None,
        budget=None,
        jobs=1,
        submit=False,
        keep=True,
        fail_on="any",
        quiet=False,
        as_json=False,
    )


def test_without_a_night_there_is_nothing_to_keep_findings_for(
    options: NightlyOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_keep(options) == 1
    assert "try: expected a night whose findings to keep, found none" in capsys.readouterr().err


@pytest.mark.parametrize("beside", [{"submit": True}, {"as_json": True}, {"budget": 60.0}])
def test_options_of_a_night_that_runs_are_refused(
    beside: dict[str, bool | float], options: NightlyOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_keep(replace(options, **beside)) == 2  # pyright: ignore[reportArgumentType]
    assert "--keep: expected no --submit" in capsys.readouterr().err


def test_a_night_that_is_interrupted_says_how_it_goes_on(
    options: NightlyOptions, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(night, "run_night", interrupted)
    assert night.run_nightly(options.file, store=None, budget=None) == 130
    *_, why, command = capsys.readouterr().err.splitlines()
    assert why == "interrupted; the next start goes on with this night:"
    assert command.endswith(f" nightly {options.file}")
