"""Control flow, calls, and kernels that wait for each other."""

from __future__ import annotations

import pytest
import torch

from precision_bisect.meaning import execution
from precision_bisect.meaning.arithmetic import LENT_TYPES, ArithmeticMode, Numbers, borrow_numbers
from precision_bisect.meaning.dump_reader import read_program
from precision_bisect.meaning.execution import CaseInputs, Execution
from precision_bisect.meaning.ir import ElementType, MeaningError, source_name

from .dumps import dump, kernel, load, program, tensor, tile

X = torch.arange(32.0).reshape(4, 8)
PARAMETERS = f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]"
STORE = (f"r: {tensor(4, 8)} = pl.tile.store(v, [0, 0], y)", "return r")


def result(*statements: str, **inputs: torch.Tensor) -> torch.Tensor:
    case = program(kernel(PARAMETERS, *statements))
    return Execution(case).run({"x": X, "y": torch.zeros(4, 8), **inputs})["y"].centre


def block(*lines: str) -> str:
    return "\n".join(lines)


LOADED = f"t: {tile(4, 8)} = {load('x', [4, 8])}"


def test_a_loop_carries_values() -> None:
    loop = block(
        "for i, (s,) in pl.range(1, 4, init_values=(t,)):",
        f"    u: {tile(4, 8)} = pl.tile.adds(s, i)",
        f"    v: {tile(4, 8)} = pl.yield_(u)",
    )
    assert torch.equal(result(LOADED, loop, *STORE), X + 6)


def test_a_write_without_a_target_changes_the_tile() -> None:
    loop = block("for i in pl.range(0, 8, 1):", "    pl.tile.write(t, [1, i], 7.0)")
    wanted = X.clone()
    wanted[1] = 7
    stored = (f"r: {tensor(4, 8)} = pl.tile.store(t, [0, 0], y)", "return r")
    assert torch.equal(result(LOADED, loop, *stored), wanted)


def test_a_loop_that_does_not_run_results_in_its_initial_values() -> None:
    loop = block(
        "for i, (s,) in pl.range(4, 4, init_values=(t,)):",
        f"    u: {tile(4, 8)} = pl.tile.adds(s, i)",
        f"    v: {tile(4, 8)} = pl.yield_(u)",
    )
    assert torch.equal(result(LOADED, loop, *STORE), X)


def test_a_while_loop_asks_before_each_iteration() -> None:
    loop = block(
        "for (s, n) in pl.while_(init_values=(t, 0)):",
        "    pl.cond(n < 3)",
        f"    u: {tile(4, 8)} = pl.tile.muls(s, 2.0)",
        "    v, m = pl.yield_(u, n + 1)",
    )
    assert torch.equal(result(LOADED, loop, *STORE), X * 8)


@pytest.mark.parametrize("n", [0, 5])
def test_a_branch_results_in_what_it_yields(n: int) -> None:
    branch = block(
        f"if {n} > 3:",
        f"    v: {tile(4, 8)} = pl.yield_(t)",
        "else:",
        f"    u: {tile(4, 8)} = pl.tile.neg(t)",
        f"    v: {tile(4, 8)} = pl.yield_(u)",
    )
    assert torch.equal(result(LOADED, branch, *STORE), X if n > 3 else -X)


def test_a_branch_may_yield_another_shape_if_nothing_reads_it() -> None:
    yields = f"    v: {tile(8, 4)} = pl.yield_(s)"
    branch = block(
        f"s: {tile(2, 8)} = pl.tile.slice(t, [2, 8], [0, 0])", "if 1 > 0:", yields, "else:", yields
    )
    stored = (f"r: {tensor(4, 8)} = pl.tile.store(t, [0, 0], y)", "return r")
    assert torch.equal(result(LOADED, branch, *stored), X)
    with pytest.raises(MeaningError, match=r"expected v in the shape \[8, 4\], found \[2, 8\]") as error:
        result(LOADED, branch, *STORE)
    assert error.value.contradicts


def test_break_and_continue_in_a_loop_without_values() -> None:
    loop = block(
        "for i in pl.range(10):",
        "    if i == 1:",
        "        continue",
        "    if i == 3:",
        "        break",
        "    v = pl.tile.adds(v, i)",
    )
    assert torch.equal(result(LOADED, "v = t", loop, *STORE), X + 2)


def test_scopes_and_blocks() -> None:
    blocks = block(
        "with pl.spmd(4):",
        "    i = pl.tile.get_block_idx()",
        f"    v: {tile(1, 8)} = pl.tile.load(x, [i, 0], [1, 8], [1, 8])",
        "    r = pl.tile.store(v, [i, 0], y)",
    )
    assert torch.equal(result(blocks, "return r"), X)
    loop = blocks.replace("with pl.spmd(4):\n    i = pl.tile.get_block_idx()", "for i in pl.spmd(4):")
    assert torch.equal(result(loop, "return r"), X)


def test_lengths_that_are_known_only_when_it_runs() -> None:
    header = 'M = pl.dynamic("M")\n\n'
    body = (
        f"t: {tile(4, 8)} = {load('x', [4, 8])}".replace("[[4, 8]", "[[M, 8]").replace("[4, 8]", "[M, 8]"),
        "v = t",
        *STORE,
    )
    dynamic = "pl.Tensor[[M, 8], pl.FP32]"
    case = program(kernel(f"x: {dynamic}, y: pl.Out[{dynamic}]", *body), header=header)
    assert torch.equal(Execution(case).run({"x": X, "y": torch.zeros(4, 8)})["y"].centre, X)


def test_an_entry_finds_its_inputs_by_the_names_of_the_case() -> None:
    assert [source_name(name) for name in ("x__ssa_v0", "acc__rv_v2", "t__tile", "x")] == [
        "x",
        "acc",
        "t",
        "x",
    ]
    case = program(
        kernel(PARAMETERS.replace("x:", "x__ssa_v0:"), LOADED.replace("(x,", "(x__ssa_v0,"), "v = t", *STORE)
    )
    assert torch.equal(Execution(case).run({"x": X, "y": torch.zeros(4, 8)})["y"].centre, X)


def test_an_input_whose_name_ends_like_what_passes_add() -> None:
    case = program(
        kernel(
            PARAMETERS.replace("x:", "y_1__ssa_v0:"), LOADED.replace("(x,", "(y_1__ssa_v0,"), "v = t", *STORE
        )
    )
    assert torch.equal(Execution(case).run({"y_1": X, "y": torch.zeros(4, 8)})["y"].centre, X)


MIXED = f"a: {tensor(4, 4)}, b: {tensor(4, 4)}, o: pl.Out[{tensor(4, 4)}]"


def mixed(*, split: int, lanes: int) -> str:
    """Cube computes a @ exp(b) of what vector pushes. Lanes take rows (split 1) or columns (2)."""
    rows, columns = (2, 4) if split == 1 else (4, 2) if split == 2 else (4, 4)
    where = {0: "[0, 0]", 1: "[lane * 2, 0]", 2: "[0, lane * 2]"}[split]
    attributes = {
        0: "",
        1: ', attrs={"split": pl.SplitMode.UP_DOWN}',
        2: ', attrs={"split": pl.SplitMode.LEFT_RIGHT}',
    }[split]
    cube = kernel(
        MIXED,
        f"p: {tile(4, 4, space='Mat')} = pl.tile.load(a, [0, 0], [4, 4], [4, 4])",
        f"q: {tile(4, 4, space='Mat')} = pl.tile.tpop_from_aiv(split={split})",
        f"c: {tile(4, 4, space='Acc')} = pl.tile.matmul(p, q)",
        f"pl.tile.tpush_to_aiv(c, split={split})",
        role="AIC",
        name="both_aic",
    )
    vector = kernel(
        MIXED,
        "lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()" if lanes > 1 else "lane = 0",
        f"t: {tile(rows, columns)} = pl.tile.load(b, {where}, [{rows}, {columns}], [{rows}, {columns}])",
        f"e: {tile(rows, columns)} = pl.tile.exp(t)",
        f"pl.tile.tpush_to_aic(e, split={split})",
        f"z: {tile(rows, columns)} = pl.tile.tpop_from_aic(split={split})",
        f"r: {tensor(4, 4)} = pl.tile.store(z, {where}, o)",
        "return r",
        name="both_aiv",
        attributes=attributes,
    )
    group = kernel(
        MIXED, "self.both_aic(a, b, o)", "r = self.both_aiv(a, b, o)", "return r", role="Group", name="both"
    )
    main = kernel(MIXED, "r = self.both(a, b, o)", "return r", role="Orchestration", name="main")
    return dump(cube, vector, group, main)


@pytest.mark.parametrize(("split", "lanes"), [(0, 1), (1, 2), (2, 2)])
def test_cube_and_vector_hand_tiles_over(split: int, lanes: int) -> None:
    torch.manual_seed(split)
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    case = read_program(mixed(split=split, lanes=lanes), "mixed.py")
    out = Execution(case, ArithmeticMode.EXACT).run({"a": a, "b": b, "o": torch.zeros(4, 4)})["o"].centre
    torch.testing.assert_close(out, a.double() @ b.double().exp())


def test_kernels_that_wait_for_each_other_are_a_deadlock() -> None:
    text = mixed(split=0, lanes=1).replace("pl.tile.tpush_to_aic(e, split=0)\n", "\n")
    with pytest.raises(MeaningError, match="waiting for a push of another"):
        Execution(read_program(text, "mixed.py")).run({"a": X[:, :4], "b": X[:, :4], "o": torch.zeros(4, 4)})


def test_halves_of_two_lanes_meet_before_the_kernel_is_taken_apart() -> None:
    case = program(
        kernel(
            PARAMETERS,
            LOADED,
            "lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()",
            f"h: {tile(2, 8)} = pl.tile.aiv_shard(t, split=1)",
            f"n: {tile(2, 8)} = pl.tile.adds(h, lane * 100)",
            f"v: {tile(4, 8)} = pl.tile.aic_gather(n, split=1)",
            *STORE,
            role="InCore",
        )
    )
    out = Execution(case).run({"x": X, "y": torch.zeros(4, 8)})["y"].centre
    assert torch.equal(out, torch.cat([X[:2], X[2:] + 100]))


def test_a_kernel_that_was_split_runs_on_both_lanes_even_where_it_shares_no_tile() -> None:
    case = program(
        kernel(
            PARAMETERS,
            "lane: pl.Scalar[pl.INDEX] = pl.tile.get_subblock_idx()",
            f"h: {tile(2, 8)} = {load('x', [2, 8]).replace('[0, 0]', '[lane * 2, 0]')}",
            "r = pl.tile.store(h, [lane * 2, 0], y)",
            "return r",
            role="InCore",
            attributes=', attrs={"split_aiv": True}',
        )
    )
    assert torch.equal(Execution(case).run({"x": X, "y": torch.zeros(4, 8)})["y"].centre, X)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("v = missing", "expected a defined variable, found missing"),
        ("v = self.missing(x)", "expected a function of the program, found missing"),
        ("v = self.kernel(x, y)", "expected at most 50 nested calls"),
        (f"v: {tile(3, 3)} = pl.tile.neg(t)", r"expected v in the shape \[3, 3\], found \[4, 8\]"),
        ("v = 1 << 100", "expected at most 63 as the right operand"),
        ("v = 10 ** 60", "expected a number of at most 64 bits"),
        ("v = 1 // 0", "expected a computable operation"),
        (
            "v = pl.tile.full([100000, 100000], dtype=pl.FP32, value=0.0)",
            "expected at most 268435456 elements",
        ),
        ("for i in pl.range(10 ** 9):\n    v = i", "expected at most 1000 steps"),
        ("for i in pl.range(10 ** 9):\n    pass", "expected at most 1000 steps"),
        ("with pl.spmd(10 ** 9):\n    pass", "expected at most 1000 steps"),
        ("for i in pl.split_aiv(0, 10 ** 9):\n    pass", "expected a region of 1 to 8 lanes"),
        (
            "for (s,) in pl.while_(init_values=(0,)):\n    pl.cond(s == 0)\n    v = pl.yield_(s)",
            "expected at most 1000 steps",
        ),
    ],
)
def test_errors_name_the_statement(statement: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MAX_STEPS", 1000)
    with pytest.raises(MeaningError, match=problem) as caught:
        result(LOADED, statement, *STORE)
    assert caught.value.place.file == "case.py"


def test_values_that_double_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.meaning.execution.MAX_BYTES", 1 << 24)
    doubles = [f"b{i + 1} = pl.tensor.concat(b{i}, b{i})" for i in range(40)]
    text = kernel(f"a: {tensor(16, 16)}", "b0 = a", *doubles, "return b40", role="Opaque")
    with pytest.raises(
        MeaningError, match="expected values of at most 16 MiB at once, and of a quarter each"
    ):
        Execution(program(text)).run({"a": torch.ones(16, 16)})


def test_the_tensors_of_the_case_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.meaning.execution.MAX_BYTES", 1 << 22)
    part = f"b: {tensor(16, 512)} = pl.tensor.slice(a, [16, 512], [0, 0])"
    text = kernel(f"a: {tensor(2048, 512)}", part, "return b", role="Opaque")
    Execution(program(text)).run({"a": torch.ones(2048, 512)})


def test_values_of_a_loop_are_not_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.meaning.execution.MAX_BYTES", 1 << 24)
    body = "for i in pl.range(0, 50, 1):\n    b = pl.tensor.add(a, a)\n    c = pl.tensor.add(b, a)"
    text = kernel(f"a: {tensor(1024, 512)}", body, "return a", role="Opaque")
    Execution(program(text)).run({"a": torch.ones(1024, 512)})


def test_a_tensor_is_lent_and_copied_when_a_run_writes_it() -> None:
    half, int8 = torch.full((1024, 512), 1.5, dtype=torch.bfloat16), torch.ones(1024, 512, dtype=torch.int8)
    inputs = CaseInputs({"a": half, "b": int8})
    lent = [
        inputs.numbers(name, dtype, ArithmeticMode.STATED)
        for name, dtype in (("a", ElementType.BFLOAT16), ("b", ElementType.INT8))
    ]
    assert [numbers.held for numbers in lent] == [(), ()]
    assert not any(numbers.held for numbers in (lent[0].rearrange(lambda each: each[:8].mT), lent[1]))
    statements = (
        f"part: {tensor(4, 8, dtype='BF16')} = pl.tensor.slice(a, [4, 8], [0, 0])",
        f"t: {tile(2, 8, dtype='BF16')} = {load('part', [2, 8])}",
        f"d: {tile(2, 8, dtype='BF16')} = pl.tile.muls(t, 3.0)",
        f"r: {tensor(1024, 512, dtype='BF16')} = pl.tile.store(d, [2, 0], a)",
        f"u: {tile(2, 8, dtype='BF16')} = {load('part', [2, 8], [2, 0])}",
        f"s: {tensor(1024, 512, dtype='BF16')} = pl.tile.store(u, [0, 8], a)",
        "return s",
    )
    case = program(
        kernel(
            f"a: pl.InOut[{tensor(1024, 512, dtype='BF16')}], b: {tensor(1024, 512, dtype='INT8')}",
            *statements,
        )
    )
    for _ in range(2):
        found = Execution(case).run(inputs)["a"].centre
        assert found.dtype is torch.float32
        assert (found[2:4, :8] == 4.5).all()
        assert (found[:2, 8:16] == 4.5).all()
        assert found.sum() == 1.5 * (1024 * 512 + 64)
    assert (half == 1.5).all()


@pytest.mark.parametrize("dtype", LENT_TYPES.values())
def test_lent_numbers_are_read_and_written_as_others(dtype: torch.dtype) -> None:
    types = {stored: label for label, stored in LENT_TYPES.items()}
    given = (torch.arange(48) % 5).reshape(6, 8).to(dtype)
    lent = borrow_numbers(given[1:], types[dtype])
    assert lent is not None
    own = Numbers(given[1:].to(lent.centre.dtype, copy=True))
    value = Numbers(torch.ones_like(own.centre[:2, :2]))
    places = torch.tensor([0, 3]), torch.tensor([1, 1])
    for numbers in (lent, own):
        flipped = numbers.rearrange(lambda each: each.mT)
        flipped.rearrange(lambda each: each[2:4, 1:3]).assign(value)
        numbers.put(places, value.rearrange(lambda each: each[0]))
    chosen = torch.tensor([4, 0])
    for move in (
        torch.clone,
        lambda each: each[chosen],
        lambda each: each.mT[1:, ::2],
        lambda each: each[:0],
    ):
        assert torch.equal(lent.rearrange(move).centre, own.rearrange(move).centre)
        assert lent.rearrange(move).shape == own.rearrange(move).shape
    assert torch.equal(lent.copy().centre, own.centre)
    assert torch.equal(given, (torch.arange(48) % 5).reshape(6, 8).to(dtype))
