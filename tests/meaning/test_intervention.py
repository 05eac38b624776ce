"""Which change of a pass is the cause: it alone, undone, makes the result right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from precision_bisect.meaning.execution import Execution
from precision_bisect.meaning.intervention import Mixture, PassChange, PassIntervention, State, intervene
from precision_bisect.meaning.ir import Assign, IrProgram, MeaningError
from precision_bisect.meaning.ladder import FirstDifference, LadderExplanation, PassCase, explain

from .dumps import dump, kernel, load, program, tensor, tile

X = torch.linspace(-1, 1, 64).reshape(8, 8)
PARAMETERS = f"x: {tensor(8, 8)}, y: pl.Out[{tensor(8, 8)}]"


def body(*, shift: str = "1.0", scale: str = "2.0", end: str = "adds", suffix: str = "") -> str:
    """The program `2 (x + 1) + 3`, whose three steps can each be another one."""
    return kernel(
        PARAMETERS,
        f"t{suffix}: {tile(8, 8)} = {load('x', [8, 8])}",
        f"a{suffix}: {tile(8, 8)} = pl.tile.adds(t{suffix}, {shift})",
        f"m{suffix}: {tile(8, 8)} = pl.tile.muls(a{suffix}, {scale})",
        f"s{suffix}: {tile(8, 8)} = pl.tile.{end}(m{suffix}, 3.0)",
        f"r: {tensor(8, 8)} = pl.tile.store(s{suffix}, [0, 0], y)",
        "return r",
    )


EXPECTED = 2 * (X + 1) + 3
INPUTS = {"x": X, "y": torch.zeros(8, 8)}


def judge(mixed: IrProgram) -> State:
    try:
        found = Execution(mixed).run(INPUTS)["y"].centre
    except MeaningError:
        return State.NOT_EXECUTED
    return State.RIGHT if torch.allclose(found, EXPECTED, rtol=0, atol=1e-3) else State.WRONG


def answer(before: str, after: str, *suspects: str) -> PassIntervention:
    def of_variables(changes: Sequence[PassChange]) -> list[int]:
        return [
            index
            for index, change in enumerate(changes)
            if any(name in variables(change) for name in suspects)
        ]

    return intervene(program(before), program(after), judge, of_variables)


def variables(change: PassChange) -> list[str]:
    return [
        target.name
        for statement in change.after or change.before
        if isinstance(statement, Assign)
        for target in statement.targets
    ]


def names(changes: tuple[PassChange, ...]) -> list[list[str]]:
    return [variables(change) for change in changes]


def test_an_innocent_change_before_the_guilty_one_is_refuted() -> None:
    found = answer(body(), body(shift="1.0001", scale="2.5", suffix="__tile"), "a__tile")
    assert names(found.cause) == [["m__tile"]]
    assert names(found.refuted) == [["a__tile"]]
    assert found.count == 2


def test_the_cause_is_found_without_a_suspect_among_many_changes() -> None:
    found = answer(body(), body(shift="1.0001", scale="2.5", end="subs"))
    assert names(found.cause) == [["m"], ["s"]]  # either is enough to make it wrong
    assert found.refuted == ()


def test_two_changes_that_do_harm_only_together() -> None:
    def step(which: str) -> str:
        other = {"both": ("a", "a"), "first": ("a", "t"), "none": ("t", "t")}[which]
        return kernel(
            PARAMETERS,
            f"t: {tile(8, 8)} = {load('x', [8, 8])}",
            f"z: {tile(8, 8)} = pl.tile.sub(t, t)",
            f"p: {tile(8, 8)} = pl.tile.adds(z, {0.0 if other[0] == 't' else 1.0})",
            f"q: {tile(8, 8)} = pl.tile.adds(z, {0.0 if other[1] == 't' else 1.0})",
            f"o: {tile(8, 8)} = pl.tile.mul(p, q)",
            f"a: {tile(8, 8)} = pl.tile.muls(t, 2.0)",
            f"b: {tile(8, 8)} = pl.tile.adds(a, 5.0)",
            f"s: {tile(8, 8)} = pl.tile.add(b, o)",
            "pl.tile.store(s, [0, 0], y)",
        )

    assert judge(program(step("first"))) is State.RIGHT
    assert names(answer(step("none"), step("both"), "p").cause) == [["p"], ["q"]]


def test_a_statement_that_was_dropped() -> None:
    shifted = f"        a: {tile(8, 8)} = pl.tile.adds(t, 1.0)\n"
    dropped = body().replace(shifted, "").replace("muls(a,", "muls(t,")
    found = answer(body(), dropped)
    assert [names((change,)) for change in found.cause] == [[["a"]], [["m"]]]
    assert found.cause[0].after == ()


def test_a_statement_that_the_cause_needs_is_no_part_of_it() -> None:
    new = f"        w: {tile(8, 8)} = pl.tile.muls(t, 1.0)\n"
    scaled = f"        m: {tile(8, 8)} = pl.tile.muls(a, 2.0)"
    wrong = f"        m: {tile(8, 8)} = pl.tile.sub(a, w)"
    found = answer(body(), body().replace(scaled, new + wrong))
    assert names(found.cause) == [["m"]]
    assert (found.count, found.context) == (2, 1)


def test_a_change_that_runs_alone_is_no_cause_by_what_it_needs() -> None:
    """The changes a and m do harm together, and each of them is right alone. Without both, the program does not run."""
    states = {"as": State.RIGHT, "am": State.WRONG, "ams": State.WRONG, "s": State.NOT_EXECUTED}

    def judge_kept(mixed: IrProgram) -> State:
        constants = {"7.0": "a", "8.0": "m", "subs": "s"}
        kept = "".join(name for text, name in constants.items() if text in repr(mixed.entry.body))
        return states.get(kept, State.RIGHT)

    changed = body(shift="7.0", scale="8.0", end="subs")
    found = intervene(program(body()), program(changed), judge_kept, lambda _changes: [0])
    assert (found.count, found.cause, found.context) == (3, (), 0)
    assert "wrong alone, and right when undone" in found.problem


def test_a_change_inside_a_loop_leaves_the_loop() -> None:
    def cut(scale: str, shift: str) -> str:
        loaded = "pl.tile.load(x, [i, 0], [4, 8], [4, 8], target_memory=pl.Mem.Vec)"
        return kernel(
            PARAMETERS,
            "for i in pl.range(0, 8, 4):",
            f"    t: {tile(4, 8)} = {loaded}",
            f"    a: {tile(4, 8)} = pl.tile.adds(t, {shift})",
            f"    m: {tile(4, 8)} = pl.tile.muls(a, {scale})",
            f"    s: {tile(4, 8)} = pl.tile.adds(m, 3.0)",
            "    pl.tile.store(s, [i, 0], y)",
        )

    found = answer(cut("2.0", "1.0"), cut("2.5", "1.0001"), "a")
    assert (names(found.cause), names(found.refuted)) == ([["m"]], [["a"]])


def test_swapped_operands_are_a_change_though_their_names_have_one_root() -> None:
    def minus(first: str, second: str) -> str:
        return kernel(
            PARAMETERS,
            f"t: {tile(8, 8)} = {load('x', [8, 8])}",
            f"t_1: {tile(8, 8)} = pl.tile.muls(t, 3.0)",
            f"t_2: {tile(8, 8)} = pl.tile.sub({first}, {second})",
            f"s: {tile(8, 8)} = pl.tile.adds(t_2, 5.0)",
            "pl.tile.store(s, [0, 0], y)",
        )

    found = answer(minus("t_1", "t"), minus("t", "t_1"))
    assert names(found.cause) == [["t_2"]]


def test_the_mixture_with_nothing_and_with_all_undone() -> None:
    before, after = program(body()), program(body(scale="2.5", end="subs", suffix="__ssa_v0"))
    mixture = Mixture(before, after)
    assert len(mixture.changes) == 2
    assert judge(mixture.undo(set())) is State.WRONG
    assert judge(mixture.undo({0, 1})) is State.RIGHT


def explained(folder: Path, *texts: str) -> LadderExplanation:
    for order, content in enumerate(texts):
        (folder / f"{order:02}_after_Pass{order}.py").write_text(dump(content))
    return explain(folder, PassCase(inputs=INPUTS, expected={"y": EXPECTED}, rtol=0, atol=1e-3))


def intervention(answered: LadderExplanation) -> PassIntervention:
    (found,) = (step.evidence for step in answered.steps if isinstance(step.evidence, PassIntervention))
    return found


def test_the_statement_shown_is_the_proven_one(tmp_path: Path) -> None:
    answered = explained(tmp_path, body(), body(shift="1.0001", scale="2.5"))
    (shown,) = (step.evidence for step in answered.steps if isinstance(step.evidence, FirstDifference))
    assert shown.variable == "m"
    assert names(intervention(answered).refuted) == [["a"]]


def placed(*places: tuple[str, int]) -> str:
    """The program with each tile in 256 bytes of an allocation."""
    t, a, u, m, v = ((base, offset, 256) for base, offset in places)
    return kernel(
        PARAMETERS,
        f"t: {tile(8, 8, at=t)} = {load('x', [8, 8])}",
        f"a: {tile(8, 8, at=a)} = pl.tile.adds(t, 1.0)",
        f"u: {tile(8, 8, at=u)} = pl.tile.sub(a, t)",
        f"m: {tile(8, 8, at=m)} = pl.tile.muls(a, 2.0)",
        f"v: {tile(8, 8, at=v)} = pl.tile.adds(u, 2.0)",
        f"s: {tile(8, 8, at=a)} = pl.tile.add(m, v)",
        "pl.tile.store(s, [0, 0], y)",
    )


def test_a_tile_put_over_another_is_the_cause_beside_an_innocent_move(tmp_path: Path) -> None:
    alone = [("mem_t", 0), ("mem_a", 0), ("mem_u", 0), ("mem_m", 0), ("mem_v", 0)]
    reused = [
        *alone[:3],
        ("mem_u", 0),
        ("mem_t", 0),
    ]  # `m` over `u`, which `v` still reads; `v` over `t` is right
    answered = explained(tmp_path, placed(*alone), placed(*reused))
    found = intervention(answered)
    assert [change.tiles for change in found.cause] == [("m",)]
    assert found.count == 2
    assert answered.first_bad is not None
    assert (answered.first_bad.faults[0].tile, answered.first_bad.faults[0].other) == ("u", "m")
