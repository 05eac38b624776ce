"""The files of a report: whole, valid against the published schema, and free of other people's markup."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markdown_it import MarkdownIt

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.model import Report, schema_text
from precision_bisect.bisect.report.report_builder import make_report
from precision_bisect.bisect.report.report_files import block, escape, render_markdown, write_report
from precision_bisect.runner.commit_diff import CommitDiff, FileStat, Hunk
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.stack import COMMAND_STACK
from precision_bisect.store.vocabulary import BisectionOutcome, Evidence, Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, sha
from tests.support.quick import quick_first

PUBLISHED = Path(__file__).parents[3] / "docs" / "report.schema.json"
HOSTILE = [
    "<script>alert(1)</script> & <img src=x onerror=y>",
    "[link](https://evil.example) ![image](https://evil.example/x.png)",
    "# heading | cell | another ``` fence",
    "***strong*** _em_ ~~gone~~ `code` $math$",
    "- item 1. item <!-- comment",
    "www.evil.example https://evil.example ada@example.com <https://evil.example>",
    "[ref]: https://evil.example [^1]: note",
    "trailing backslash \\",
]


def files(stored: StoredBisection) -> dict[str, str]:
    write_report(stored.rows(), stored.folder / "report")
    return {path.name: path.read_text() for path in (stored.folder / "report").iterdir()}


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == schema_text(), (
        "run: python -m precision_bisect.bisect.report.model > docs/report.schema.json"
    )


def test_every_report_is_valid(any_kind: StoredBisection) -> None:
    text = files(any_kind)["report.json"]
    schema = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema, cls=jsonschema.Draft202012Validator)
    assert Report.model_validate_json(text) == any_kind.report()


def test_the_schema_refuses_what_is_no_report(culprit: StoredBisection) -> None:
    report = json.loads(files(culprit)["report.json"])
    validator = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))
    for broken in ({"outcome": "maybe"}, {"extra": 1}, {"format": 2}, {"probes": [{}]}):
        assert not validator.is_valid(report | broken)


def test_files_of_a_report(submodule_culprit: StoredBisection) -> None:
    assert sorted(files(submodule_culprit)) == [
        ".gitignore",
        "bisect-runtime.log",
        "bisect.log",
        "report.json",
        "report.md",
        "reproduce-bad.sh",
        "reproduce-good.sh",
    ]


def test_the_report_says_where_both_builds_and_the_frozen_data_lie(culprit: StoredBisection) -> None:
    text, report = files(culprit)["report.md"], culprit.report()
    sides = (report.reproduce.good, report.reproduce.bad)
    for side in sides:
        assert side is not None
        assert f"Build directory: /home/probes/{side.shown}/build" in text
    assert "| frozen data | /home/golden/5650 |" in text


def test_the_culprit_s_diff_is_told_with_the_lines_nearest_to_the_failure(tmp_path: Path) -> None:
    """Of six hunks four: the one that the failing run names among them, as git shows it."""
    stored = hostile_bisection(tmp_path, "softmax_rows")
    others = [Hunk(path=f"docs/{n}.md", header=f"@@ -{n} +{n} @@", lines=("+1", "+2")) for n in range(5)]
    named = Hunk(
        path="a.c", header="@@ -3,2 +3,3 @@ f", lines=(" {", "+    softmax_rows(x);", " }"), left_out=7
    )
    with stored.sessions() as session:
        rows = load_rows(session, stored.name)
        assert rows.conclusion is not None
        (diff,) = rows.conclusion.diffs
        several = diff.model_copy(
            update={"hunks": (*others, named), "files": diff.files * 3, "changed_files": 3}
        )
        conclusion = rows.conclusion.model_copy(update={"diffs": (several,)})
        report = make_report(replace(rows, conclusion=conclusion))
    shown = report.culprits[0].diff
    assert shown is not None
    assert len(shown.hunks) == 4
    assert named in shown.hunks
    text = render_markdown(report)
    assert "```diff\n--- a.c\n@@ -3,2 +3,3 @@ f\n {\n+    softmax_rows(x);\n }\n... 7 more lines\n```" in text
    assert "softmax_rows | 3 ++-\n3 files changed, 2 insertions(+), 1 deletion(-)\n```" in text
    assert "What it changes, it has no parent:" in text


def test_a_question_about_a_command_is_told_as_a_plan_tells_it(culprit: StoredBisection) -> None:
    update = {"bad_when": None, "stack": COMMAND_STACK}
    text = render_markdown(culprit.report().model_copy(update=update))
    assert "| stack | none, only a command |" in text
    assert "| bad when | the command fails as the bad end does |" in text


def test_nothing_of_another_bisection_s_report_is_left_beside_a_new_one(
    submodule_culprit: StoredBisection, tmp_path: Path
) -> None:
    folder = submodule_culprit.folder / "report"
    own, localized = files(submodule_culprit), ("divergence.json", "task_graph.html", "explanation.json")
    for name in localized:
        (folder / name).write_text("{}")
    assert files(submodule_culprit).keys() == {*own, *localized}
    (tmp_path / "other").mkdir()
    other = StoredBisection(tmp_path / "other", good=sha("c0"), bad=sha("c1"), name="other")
    write_report(other.rows(), folder)
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "report.json", "report.md"]


def test_a_failed_write_leaves_the_old_file_and_no_other(
    culprit: StoredBisection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(culprit)

    def full(path: str, flags: int) -> int:
        Path(path).write_text("the begin")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("precision_bisect.store.durable_files.open_private", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_report(culprit.rows(), culprit.folder / "report")
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in (culprit.folder / "report").iterdir()} == before


def test_a_folder_that_cannot_be_made_is_one_clear_line(culprit: StoredBisection) -> None:
    (culprit.folder / "file").write_text("")
    with pytest.raises(UserError, match=r"expected a folder to write the report to: .*directory") as caught:
        write_report(culprit.rows(), culprit.folder / "file" / "report")
    assert "\n" not in str(caught.value)


def hostile_bisection(folder: Path, text: str) -> StoredBisection:
    """The text wherever somebody else's text can stand."""
    stored = StoredBisection(
        folder, good=sha("c0"), bad=sha("c3"), case=f"examples/x.py '{text}'".replace("\\", "")
    )
    names = ["c1", "c2", "c3"]
    rows = [
        described(name, [before], subject=text, author=text, files=(text,))
        for before, name in zip(["c0", *names], names, strict=False)
    ]
    stage = stored.stage([(row, row.sha) for row in rows], good=sha("c0"), bad=sha("c3"))
    shown: dict[str, Any] = {
        "signature": text,
        "evidence": [Evidence(stream="stdout", line=1, text=text, why=text)],
    }
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT, **shown)
    stored.probe(stage, sha("c3"), Verdict.MISMATCH, phase=Phase.ENDPOINT, environment={text: text}, **shown)
    stored.probe(stage, sha("c1"), Verdict.BUILD_ERROR, **shown)
    stored.journal.add_notice(text)
    culprits = tuple(
        NamedCommit(repository="compiler", commit=row.sha, parent=None, confidence=None, merge=False)
        for row in rows
    )
    diff = CommitDiff(
        commit=rows[2].sha,
        parent=None,
        files=(FileStat(path=text, added=2, removed=1),),
        changed_files=1,
        added=2,
        removed=1,
        hunks=(Hunk(path=text, header=f"@@ -1 +1,2 @@ {text}", lines=(f"+{text}", f"-{text}", f" {text}")),),
    )
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.SUSPECT,
            message=text,
            diffs=(diff,),
            culprits=culprits[2:],
            through=culprits[1],
            suspects=culprits,
            earlier_failures=(sha("c1"),),
        )
    )
    return stored


def structure(markdown: str) -> list[tuple[str, str]]:
    """Every token of the document but the text itself."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return [
        (token.type, token.tag)
        for parent in parser.parse(markdown)
        for token in (parent, *(parent.children or []))
        if token.type != "text_special"
    ]


def shown_text(markdown: str) -> str:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return "\n".join(
        "".join(child.content for child in token.children) if token.children else token.content
        for token in parser.parse(markdown)
    )


@pytest.mark.parametrize("text", quick_first(HOSTILE, 2))
def test_markdown_shows_other_people_s_text_as_it_is(text: str, tmp_path: Path) -> None:
    for name in ("plain", "hostile"):
        (tmp_path / name).mkdir()
    plain = files(hostile_bisection(tmp_path / "plain", "harmless"))["report.md"]
    hostile = files(hostile_bisection(tmp_path / "hostile", text))["report.md"]

    def significant(markdown: str) -> list[tuple[str, str]]:
        """Runs of text may be split where something was escaped."""
        return [token for token in structure(markdown) if token != ("text", "")]

    assert significant(hostile) == significant(plain)
    # The fenced evidence, the answer, the subject: as they were written.
    assert shown_text(hostile).replace("\u200b", "").count(text) >= 15


@pytest.mark.parametrize("text", ["https://evil.example", "www.evil.example", "ada@example.com"])
def test_what_looks_like_an_address_is_no_link(text: str) -> None:
    """GitHub links bare addresses; a backslash before the mark that it looks for stops it."""
    assert re.search(r"\\:/|www\\\.|\\@", escape(text))


def test_a_fence_is_longer_than_any_in_the_lines() -> None:
    tokens = MarkdownIt("commonmark").parse(block(["a ```` b", "```", "# c"]))
    assert [(token.type, token.content) for token in tokens] == [("fence", "a ```` b\n```\n# c\n")]


def test_no_line_break_or_control_character_gets_through(tmp_path: Path) -> None:
    report = files(hostile_bisection(tmp_path, "a\r\n# b\x1b[2J\u202e\u2028c\x85d"))
    assert "\n# b" not in report["report.md"]
    for name, text in report.items():
        if name.endswith((".md", ".log")):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", text), name


def test_reports_import_no_torch() -> None:
    code = (
        "import sys, precision_bisect.bisect.commands, precision_bisect.bisect.report.model\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_report_repeats_the_search_in_a_line_that_is_not_cut(culprit: StoredBisection) -> None:
    words = ("--good", "a" * 40, "--bad", "b" * 40, "--", "sh", "-c", "x" * 2000)
    report = culprit.report().model_copy(
        update={"repeat": shlex.join(words), "reduce": "reduce --bisection x"}
    )
    text = render_markdown(report)
    assert f"```text\n{shlex.join(words)}\n```" in text
    assert "```text\nreduce --bisection x\n```" in text
