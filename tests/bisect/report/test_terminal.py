"""The end of a run, as it stands on terminals of all sizes."""

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from precision_bisect.bisect.report.model import EvidenceLine, Report
from precision_bisect.bisect.report.phrases import outcome_phrase
from precision_bisect.bisect.report.report_files import render_markdown, write_report
from precision_bisect.bisect.report.terminal import print_probes, print_report
from precision_bisect.runner.commit_diff import CommitDiff, FileStat
from precision_bisect.runner.localization import BuildChange, Divergence, FailureCause, Localization
from precision_bisect.store.vocabulary import Evidence, Verdict, percent
from tests.bisect.report.stored_bisection import StoredBisection, sha
from tests.support.quick import quick_first


def printed(stored: StoredBisection, *, width: int = 80, colour: bool = False, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour or terminal,
        color_system="standard" if colour else None,
    )
    directory = stored.folder / "report"
    write_report(stored.rows(), directory)
    print_probes(stored.report(), console)
    print_report(stored.report(), directory, console)
    return stream.getvalue()


def flowing(text: str) -> str:
    return " ".join(text.split())


def test_a_culprit_is_told_with_all_that_one_asks_next(culprit: StoredBisection) -> None:
    text = flowing(printed(culprit))
    for part in (
        f"compiler {sha('c5')} Subject of c5",
        "Ada Example, committed 2026-03-04",
        "src/c5.py",
        "99.93 % (99 % was asked)",
        f"bad compiler {sha('c5')[:12]}: mismatch (out: 3/512 differ) in 3 of 3 runs [RUN] mismatch",
        f"good compiler {sha('c4')[:12]}: pass in 3 of 3 runs",
        "with the change 6 of 6 runs failed, without it 0 of 6",
        f"{sha('c3')[:12]} Subject of c3: build_error, runtime: no rule to make target",
        "ptoas v0.57 (frozen at v0.57 in every run)",
        f"sh {culprit.folder}/report/reproduce-bad.sh",
        f"sh {culprit.folder}/report/reproduce-good.sh",
        "13 runs of 5 commits in ",
    ):
        assert part in text


@pytest.mark.parametrize(("suspects", "unshown"), [(9, 0), (10, 2)])
def test_a_line_for_one_more_suspect_is_that_suspect(
    only_skipped: StoredBisection, suspects: int, unshown: int
) -> None:
    stored = only_skipped.report()
    report = stored.model_copy(update={"suspects": (stored.suspects[0],) * suspects})
    stream = io.StringIO()
    print_report(report, only_skipped.folder, Console(file=stream, width=200))
    assert (
        sum(line.split()[:1] == ["suspect"] for line in stream.getvalue().splitlines()) == suspects - unshown
    )
    assert ("more in report.json" in stream.getvalue()) == bool(unshown)


def test_a_submodule_culprit_is_told_with_what_brought_it_in(submodule_culprit: StoredBisection) -> None:
    text = flowing(printed(submodule_culprit))
    assert f"culprit runtime {sha('r2')}" in text
    assert f"through compiler {sha('c5')[:12]} Subject of c5" in text
    assert (
        "the commit with the old pin is good, its parent with the new pin is bad; due to: submodule" in text
    )
    assert "layers compiler, runtime and ptoas moved at once: it takes runtime to be new" in text


def test_only_skipped_names_the_suspects(only_skipped: StoredBisection) -> None:
    text = flowing(printed(only_skipped))
    assert "the runs do not tell the commits left apart" in text
    for name in ("c4", "c5", "c6"):
        assert f"suspect compiler {sha(name)[:12]} Subject of {name}" in text


WHOLE = ("sh ", "/", "reduce ", "look at ")
"""How lines begin that stand whole, whatever the width, to be copied."""


@pytest.mark.parametrize("width", quick_first([40, 80]))
@pytest.mark.parametrize("colour", quick_first([False, True]))
def test_no_line_is_too_wide_but_what_is_to_be_copied(
    any_kind: StoredBisection, width: int, colour: bool
) -> None:
    for line in printed(any_kind, width=width, terminal=True).splitlines():
        assert cell_len(line) <= width or line.startswith(WHOLE)
    assert ("\x1b" in printed(any_kind, width=width, colour=colour)) == colour


def test_what_goes_into_a_pipe_is_neither_padded_nor_wrapped(any_kind: StoredBisection) -> None:
    narrow, wide = (printed(any_kind, width=width) for width in (40, 300))
    assert narrow == wide
    assert all(line == line.rstrip() for line in narrow.splitlines())
    assert "─" not in narrow


def test_a_path_stands_on_a_line_of_its_own(culprit: StoredBisection) -> None:
    for terminal in (False, True):
        lines = printed(culprit, width=40, terminal=terminal).splitlines()
        assert f"{culprit.folder}/report/report.md" in lines


def test_paths_below_the_current_folder_are_as_one_types_them(
    culprit: StoredBisection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(culprit.folder)
    lines = printed(culprit).splitlines()
    assert {"report/report.md", "sh report/reproduce-bad.sh", "sh report/reproduce-good.sh"} <= {*lines}


def test_the_answer_stands_last(any_kind: StoredBisection) -> None:
    """Whatever is above it, a screen shows it."""
    for terminal in (False, True):
        last = printed(any_kind, terminal=terminal).splitlines()[-1]
        report = any_kind.report()
        if report.culprits:
            (named,) = report.culprits
            sure = "" if named.confidence is None else f" ({percent(named.confidence)})"
            told = f"culprit    {named.repository} {named.commit[:12]}{sure} {named.subject}"
            assert last.rstrip() == told
        else:
            assert last.rstrip() == f"answer     {outcome_phrase(report)}"


def plain(stored: StoredBisection) -> Report:
    """A report as of a plain command: nothing is pinned or skipped, and three files change."""
    report = stored.report()
    (named,) = report.culprits
    files = tuple(FileStat(path=f"src/file_{n}.c", added=n, removed=1) for n in range(3))
    diff = CommitDiff(
        commit=named.commit, parent=named.parent, files=files, changed_files=3, added=3, removed=3, hunks=()
    )
    changes = {"culprits": (named.model_copy(update={"diff": diff}),), "skipped": (), "pins": ()}
    return report.model_copy(update={**changes, "bad_when": None})


def test_the_answer_to_a_plain_question_fits_a_screen(
    culprit: StoredBisection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 24 lines of 80 letters, the last one for the prompt."""
    monkeypatch.chdir(culprit.folder)
    write_report(culprit.rows(), culprit.folder / "report")
    stream = io.StringIO()
    print_report(
        plain(culprit), culprit.folder / "report", Console(file=stream, width=80, force_terminal=True)
    )
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 23
    assert all(cell_len(Text.from_ansi(line).plain) <= 80 for line in lines)
    text = stream.getvalue()
    for part in ("src/file_2.c | 3 ++-", "3 files changed, 3 insertions(+), 3 deletions(-)", "fails ("):
        assert part in text


def test_a_caveat_is_told_of_in_the_first_line_and_in_the_last(culprit: StoredBisection) -> None:
    report = culprit.report()
    for caveats, told in ((), False), (("it fails otherwise than the bad end",), True):
        stream = io.StringIO()
        shown = report.model_copy(update={"caveats": caveats})
        print_report(shown, culprit.folder / "none", Console(file=stream, width=200))
        lines = stream.getvalue().splitlines()
        assert [", but with a caveat" in lines[place] for place in (0, -1)] == [told, told]
        assert any(line.split(" ")[0] == "but" for line in lines) == told


def test_narrow_or_wide_no_word_is_lost(culprit: StoredBisection) -> None:
    letters = [
        "".join(printed(culprit, width=width, terminal=True).replace("─", "").split()) for width in (40, 120)
    ]
    assert sorted(letters[0]) == sorted(letters[1])


@pytest.mark.parametrize("width", [40, 50, 51, 60])
def test_a_commit_is_whole_on_a_narrow_terminal(culprit: StoredBisection, width: int) -> None:
    (named,) = culprit.report().culprits
    assert named.commit in printed(culprit, width=width, terminal=True)


def test_the_cost_fits_a_line_and_commands_are_not_called_a_report(culprit: StoredBisection) -> None:
    lines = printed(culprit, terminal=True).splitlines()
    place = lines.index("Report and commands to go on:")
    assert lines[place - 1].startswith("13 runs of 5 commits in ")
    assert lines[place + 1] == f"{culprit.folder}/report/report.md"


def test_commands_are_printed_unwrapped(culprit: StoredBisection) -> None:
    lines = printed(culprit, width=40).splitlines()
    assert f"sh {culprit.folder}/report/reproduce-bad.sh" in lines


def test_a_log_cannot_drive_the_terminal(interrupted: StoredBisection) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[bold]markup[/bold] \u202e[link=https://x]"
    interrupted.probe(
        1,
        interrupted.request.bad,
        Verdict.MISMATCH,
        signature=hostile,
        evidence=[Evidence(stream="stdout", line=1, text=hostile, why="")],
    )
    text = printed(interrupted, width=200)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert text.count("[bold]markup[/bold]") >= 2


def test_of_a_command_the_last_lines_are_shown_and_of_a_case_the_first(culprit: StoredBisection) -> None:
    report = culprit.report()
    bad = report.reproduce.bad
    assert bad is not None
    texts = [
        "Traceback (most recent call last):",
        "  line 1",
        "  line 2",
        "  line 3",
        "AssertionError: wrong value 3",
    ]
    lines = tuple(
        EvidenceLine(stream="stderr", line=place, text=text, why="")
        for place, text in enumerate(texts, start=1)
    )
    probes = tuple(
        probe.model_copy(
            update={"runs": tuple(run.model_copy(update={"evidence": lines}) for run in probe.runs)}
        )
        for probe in report.probes
    )
    case = report.model_copy(update={"probes": probes})
    for shown, words in ((case, texts[0]), (case.model_copy(update={"bad_when": None}), texts[-1])):
        stream = io.StringIO()
        print_report(shown, culprit.request.output, Console(file=stream, width=200))
        assert words in stream.getvalue()
        assert ({texts[0], texts[-1]} - {words}).isdisjoint(map(str.strip, stream.getvalue().splitlines()))


def test_each_line_of_a_change_has_a_line_of_its_own(culprit: StoredBisection) -> None:
    change = BuildChange(part="kernel", file="y.cpp", line=7, diff=("- a[b_] = ~c;", "+ a[b_] = `d`;"))
    cause = FailureCause(what="the source of kernel y", confirmed=True, effect=1.0, changes=(change,))
    divergence = Divergence(failing_build="bad", causes=(cause,))
    found = Localization(status="found", message="with the parent's build", divergence=divergence)
    report = culprit.report().model_copy(update={"localization": found})
    stream = io.StringIO()
    print_report(report, culprit.request.output, Console(file=stream, width=200))
    assert "changed    y.cpp:7\n           - a[b_] = ~c;\n           + a[b_] = `d`;\n" in stream.getvalue()
    assert "- changed: y.cpp:7\n\n```diff\n- a[b_] = ~c;\n+ a[b_] = `d`;\n```\n\n" in render_markdown(report)


def test_nothing_is_promised_that_was_not_written(culprit: StoredBisection, tmp_path: Path) -> None:
    stream = io.StringIO()
    print_report(culprit.report(), tmp_path / "nowhere", Console(file=stream, width=120))
    assert "reproduce-bad.sh" not in stream.getvalue()
    assert f"bisect-precision report {culprit.name}" in stream.getvalue()
