"""What `explain` prints, and its exit codes, on small dumps with planted faults."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
import torch
from click.testing import CliRunner, Result

from precision_bisect.bisect.cli import main
from precision_bisect.bisect.explain_command import schema_text
from tests.meaning.dumps import dump, kernel, load, tensor, tile

PUBLISHED = Path(__file__).parents[3] / "docs" / "explanation.schema.json"
X = torch.linspace(-1, 1, 64).reshape(8, 8)
EXPECTED = {"y": 2 * X.exp() + X}
APART = (0, 256, 512)


def text(scale: str = "2.0", *, places: tuple[int, int, int] | None = None) -> str:
    """The program `2 exp(x) + x`; the three places are those of its tiles, in bytes."""

    def at(index: int) -> tuple[str, int, int] | None:
        return None if places is None else ("mem_vec_0", places[index], 256)

    return dump(
        kernel(
            f"x: {tensor(8, 8)}, y: pl.Out[{tensor(8, 8)}]",
            f"t: {tile(8, 8, at=at(0))} = {load('x', [8, 8])}",
            f"e: {tile(8, 8, at=at(1))} = pl.tile.exp(t)",
            f"m: {tile(8, 8, at=at(2))} = pl.tile.muls(e, {scale})",
            f"s: {tile(8, 8, at=at(0))} = pl.tile.add(m, t)",
            f"r: {tensor(8, 8)} = pl.tile.store(s, [0, 0], y)",
            "return r",
        )
    )


def save(folder: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True)
    for name, value in tensors.items():
        torch.save(value, folder / f"{name}.pt")
    return folder


def build(folder: Path, *texts: str, expected: Mapping[str, torch.Tensor] = EXPECTED) -> Path:
    """A build directory whose passes are called Pass0, Pass1 and so on."""
    (folder / "passes_dump").mkdir(parents=True)
    for order, content in enumerate(texts):
        (folder / "passes_dump" / f"{order:02}_after_Pass{order}.py").write_text(content)
    save(folder / "data" / "in", {"x": X})
    save(folder / "data" / "out", expected)
    return folder


def explain(*words: object) -> Result:
    done = CliRunner().invoke(main, ["explain", *map(str, words)])
    lines = done.output.splitlines()
    if "--json" not in words:
        assert len(lines) <= 24
        assert done.exit_code == 1 or "--check" in words or max(map(len, lines)) <= 80
    return done


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text() == schema_text(), (
        "run: python -m precision_bisect.bisect.explain_command > docs/explanation.schema.json"
    )


def test_a_wrong_pass_and_the_statement_that_differs(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text(places=APART), text("2.5", places=APART))
    done = explain(folder)
    assert done.exit_code == 0
    assert "ladder   ++x" in done.output
    assert "right after 01 Pass1, wrong after 02 Pass2" in done.output
    assert "> m = pl.tile.muls(e, 2.0)" in done.output
    assert "> m = pl.tile.muls(e, 2.5)" in done.output
    assert "proof    undoing 10: m = pl.tile.muls(e, 2.5) makes the result right" in done.output
    assert "answer   pass 02 Pass2 changes what the program computes, first that of m" in done.output


def test_an_innocent_statement_before_the_cause_is_refuted(tmp_path: Path) -> None:
    rounded = text("2.5").replace("pl.tile.exp(t)", "pl.tile.adds(t, 1.0)")
    before = text().replace("pl.tile.exp(t)", "pl.tile.adds(t, 1.00003)")
    folder = build(tmp_path / "b", before, rounded, expected={"y": 3 * X + 2})
    done = explain(folder, "--atol", "1e-3")
    assert "first that of m" in " ".join(done.output.split())
    assert "refuted  undoing 9: e = pl.tile.adds(t, 1.0) leaves it wrong" in done.output
    proof = json.loads(explain(folder, "--atol", "1e-3", "--json").output)["proof"]
    assert [change["after"][0]["line"] for change in proof["cause"]] == [10]
    assert [change["after"][0]["line"] for change in proof["refuted"]] == [9]
    assert (proof["changes"], proof["problem"]) == (2, "")


def test_a_tile_over_another(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text(places=APART), text(places=(0, 0, 256)))
    done = explain(folder)
    assert done.exit_code == 0
    assert "answer   pass 02 Pass2 puts e over t, which is still read" in done.output
    answer = json.loads(explain(folder, "--json").output)
    jsonschema.validate(answer, json.loads(schema_text()))
    (fault,) = answer["misplaced"]
    assert (answer["verdict"], answer["candidates"]) == ("memory_fault", ["02 Pass2"])
    assert (fault["tile"], fault["other"], fault["first_byte"], fault["bytes"]) == ("t", "e", 0, 256)
    assert fault["made"]["statement"].startswith("t: pl.Tile")
    assert "pl.tile.add(m, t)" in fault["used"]["statement"]
    assert "pl.tile.exp(t)" in fault["written"]["statement"]
    assert answer["schema_version"] == 1


def test_right_ir_is_handed_on(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text(places=APART))
    done = explain(folder)
    assert done.exit_code == 3
    assert "the IR is right after every pass" in done.output
    assert "next     reduce " in done.output
    jsonschema.validate(json.loads(explain(folder, "--json").output), json.loads(schema_text()))


def test_a_program_that_is_wrong_before_any_pass(tmp_path: Path) -> None:
    done = explain(build(tmp_path / "b", text("3.0"), text("3.0", places=APART)))
    assert done.exit_code == 0
    assert "wrong before any pass" in done.output


def test_an_earlier_pass_is_not_acquitted_where_the_first_dump_that_runs_is_wrong(tmp_path: Path) -> None:
    odd = text().replace("pl.tile.exp", "pl.tile.quantum")
    folder = build(tmp_path / "b", odd, odd, text("3.0", places=APART))
    done = explain(folder)
    assert done.exit_code == 6
    assert "the first dump that could be executed, after 02 Pass2, is wrong" in " ".join(done.output.split())
    assert explain(folder, "--check").exit_code == 1


def test_hostile_dumps_leave_it_undecided_and_are_not_executed(tmp_path: Path) -> None:
    written = tmp_path / "written"
    hostile = f"open({str(written)!r}, 'w')\n\x1b[31m def f(:\n"
    done = explain(build(tmp_path / "b", text(), hostile, text(places=APART)))
    assert done.exit_code == 6
    assert "ladder   +?+" in done.output
    assert "not decided: 1 dump could not be executed" in done.output
    assert "\x1b" not in done.output
    done = explain(build(tmp_path / "c", hostile))
    assert (done.exit_code, written.exists()) == (6, False)


def test_passes_that_cannot_be_told_apart_are_all_named(tmp_path: Path) -> None:
    done = explain(build(tmp_path / "b", text(), "?", text("2.5")))
    assert done.exit_code == 0
    assert "or one of 01 Pass1" in " ".join(done.output.split())


def test_data_of_another_shape_are_refused(tmp_path: Path) -> None:
    short = build(tmp_path / "b", text(), text("2.5"), expected={"y": torch.ones(1, 8)})
    done = explain(short)
    assert done.exit_code == 1
    assert "expected output y: expected shape [8, 8], found [1, 8]" in done.output
    assert explain(short, "--check").exit_code == 125


def test_a_pass_that_the_next_one_mends_is_said_to_be_mended(tmp_path: Path) -> None:
    words = " ".join(explain(build(tmp_path / "b", text(), text("2.5"), text())).output.split())
    assert "answer pass 01 Pass1 changes" in words
    assert "it is right again after 02 Pass2" in words


def test_a_pass_without_a_dump_may_be_at_fault_too(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), "?", text("2.5"), text("2.5"))
    (dump,) = (folder / "passes_dump").glob("01_*")
    dump.unlink()
    done = explain(folder)
    assert "ladder   +?xx" in done.output
    assert "or one of 01 (no dump), whose dumps are missing or could not be executed" in " ".join(
        done.output.split()
    )
    dump.mkdir()
    refused = explain(folder)
    assert refused.exit_code == 1
    assert f"{dump.name}:1: expected a file, found a folder or a pipe" in refused.output


def test_the_pass_of_the_last_bad_stretch_is_named_and_the_earlier_one_told(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text("2.5"), text(), text("3.0"), text("3.0", places=APART))
    done = explain(folder)
    assert "ladder   +x+xx" in done.output
    words = " ".join(done.output.split())
    assert "answer pass 03 Pass3 changes" in words
    assert "it was wrong after 01 Pass1 too, and right again after 02 Pass2" in words


def test_a_check_that_cannot_fail_or_that_an_unwritten_output_passes(tmp_path: Path) -> None:
    empty = build(tmp_path / "b", text(), expected={"y": torch.zeros(0, 8)})
    done = explain(empty)
    assert done.exit_code == 0
    assert "answer   the check passes whatever y holds" in done.output
    zeros = explain(build(tmp_path / "c", text("2.0"), expected={"y": torch.zeros(8, 8)}), "--atol", 100)
    assert "as before the run: y" in " ".join(zeros.output.split())
    lost = {"y": EXPECTED["y"].clone().fill_(torch.nan)}
    answered = explain(build(tmp_path / "d", text(), expected=lost)).output
    assert "not finite: y" in " ".join(answered.split())


def test_as_a_check_script_it_exits_as_one(tmp_path: Path) -> None:
    right = build(tmp_path / "right", text(), text(places=APART))
    wrong = build(tmp_path / "wrong", text(), text("2.5"))
    started = build(tmp_path / "started", text("2.5"))
    unknown = build(tmp_path / "unknown", text(), "?")
    blind = build(tmp_path / "blind", text(), expected={"y": torch.zeros(0, 8)})
    codes = [explain(each, "--check").exit_code for each in (right, wrong, started, unknown, blind)]
    assert codes == [0, 1, 1, 125, 125]
    gone = CliRunner().invoke(main, ["explain", str(tmp_path / "gone"), "--check"])
    assert gone.exit_code == 125
    assert gone.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("right", "wrong", "answer"),
    [
        (text(), text("2.5"), "pass Fold changes what the program computes, first that of m"),
        (
            text(places=APART),
            text(places=(0, 0, 256)),
            "pass Fold puts e over t, which is still read",
        ),
        (
            text(),
            text().replace(f"e: {tile(8, 8)}", f"e: {tile(8, 4)}"),
            "pass Fold makes a program that cannot run: expected e in the shape [8, 4], found [8, 8]",
        ),
    ],
)
def test_one_failure_reads_alike_where_a_commit_has_other_passes(
    tmp_path: Path, right: str, wrong: str, answer: str
) -> None:
    """A search takes two texts for two failures. Passes come and go, and with them lines and numbers of variables."""

    def numbered(content: str) -> str:
        return "\n" + re.sub(r"\b([tems])\b(?=[:,)])", r"\1__ssa_v3", content)

    few = build(tmp_path / "few" / "b", right, wrong)
    (few / "passes_dump" / "01_after_Pass1.py").rename(few / "passes_dump" / "01_after_Fold.py")
    many = build(tmp_path / "many" / "other", *[numbered(each) for each in (right, right, wrong, wrong)])
    (many / "passes_dump" / "02_after_Pass2.py").rename(many / "passes_dump" / "02_after_Fold.py")
    here, there = (explain(each, "--check").output for each in (few, many))
    assert here.startswith(answer)
    assert here == there
    assert len(here.splitlines()) == 1
    assert "pass 02 Fold" in json.loads(explain(many, "--check", "--json").output)["message"]


def test_what_the_inputs_and_roundings_can_do_is_said(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text("2.000001"))
    answered = " ".join(explain(folder, "--rtol", "1e-7", "--atol", 0).output.split())
    assert "more if each input is moved by its last bit, and by rounding alone by at most" in answered
    check = json.loads(explain(folder, "--json").output)["check"]
    assert 0 < check["input_error"] < 1
    assert 0 < check["rounding_bound"] < 1


def test_the_tolerance_is_that_of_the_options(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text("2.0001"))
    assert explain(folder).exit_code == 0
    assert explain(folder, "--rtol", "0.01").exit_code == 3


def test_a_folder_of_dumps_alone(tmp_path: Path) -> None:
    folder = build(tmp_path / "b", text(), text("2.5"))
    dumps = folder / "passes_dump"
    data = ("--inputs", folder / "data" / "in", "--expected", folder / "data" / "out")
    assert explain(dumps, *data).exit_code == 0


@pytest.mark.parametrize(
    ("lost", "error"),
    [
        (".", "expected a build directory or a folder of dumps, found none; check the path"),
        ("passes_dump", "expected passes_dump/, found none; compile the case with --dump-passes"),
        ("data/in", "expected a folder of NAME.pt files, found none; run the case with --save-data"),
        ("data/out/y.pt", "expected NAME.pt files, found none; name a folder that has some: --expected DIR"),
    ],
)
def test_what_is_missing_is_said_in_one_line(tmp_path: Path, lost: str, error: str) -> None:
    folder = build(tmp_path / "b", text())
    (folder / lost).rename(tmp_path / "elsewhere")
    done = explain(folder)
    assert done.exit_code == 1
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_output_that_the_program_does_not_have(tmp_path: Path) -> None:
    done = explain(build(tmp_path / "b", text(), expected={"z": X}))
    assert done.exit_code == 1
    assert "expected outputs named as parameters of kernel (x, y), found 'z'; rename its file" in done.stderr
