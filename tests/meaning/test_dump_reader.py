"""A dump is read as data: what is not understood costs one function, and nothing in it runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from precision_bisect.meaning import dump_reader
from precision_bisect.meaning.dump_reader import read_dump, read_program
from precision_bisect.meaning.execution import Execution
from precision_bisect.meaning.ir import (
    Assign,
    Call,
    Constant,
    ElementType,
    For,
    MeaningError,
    MemorySpace,
    Operator,
    ParameterDirection,
    TensorType,
    TileType,
    Variable,
    Yield,
)

from .dumps import dump, kernel, load, program, tensor, tile

TWO = dump(
    kernel(
        f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]",
        f"t: {tile(4, 8)} = {load('x', [4, 8])}",
        f"for i, (s,) in pl.range(3, init_values=(t,)):\n    u: {tile(4, 8)} = pl.tile.add(s, t)\n    v = pl.yield_(u)",
        f"r: {tensor(4, 8)} = pl.tile.store(v, [0, 0], y)",
        "return r",
    ),
    kernel(
        f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]",
        f"r: {tensor(4, 8)} = self.kernel(x, y)",
        "return r",
        role="Orchestration",
        name="main",
    ),
)


def test_types_directions_and_statements() -> None:
    function = program(
        kernel(
            f"x: pl.InOut[{tensor(4, 8, dtype='BFLOAT16')}], n: pl.Scalar[pl.INDEX]",
            "t: pl.Tile[[4, 8], pl.FP16, pl.MemRef(mem_vec_3, pl.const(64, pl.INT64), 64), pl.Mem.Vec, "
            "pl.TileView(valid_shape=[n, 8], slayout=pl.TileLayout.row_major)] = pl.tile.and(x, -1 + n * 2)",
            "for i, (a,) in pl.parallel(0, n, 2, init_values=(t,)):\n    b = pl.yield_(a)",
        )
    ).functions["kernel"]
    x, n = function.parameters
    assert isinstance(x.type, TensorType)
    assert (x.direction, x.type.dtype) == (ParameterDirection.IN_OUT, ElementType.BFLOAT16)
    assert n.direction is ParameterDirection.IN
    assign, loop = function.body
    assert isinstance(assign, Assign)
    assert isinstance(loop, For)
    type_ = assign.targets[0].type
    assert isinstance(type_, TileType)
    assert type_.space is MemorySpace.VEC
    assert type_.valid_shape == (Variable("n"), Constant(8))
    assert type_.inner_layout == "row_major"
    assert type_.reference is not None
    assert (type_.reference.base, type_.reference.offset, type_.reference.size) == (
        "mem_vec_3",
        Constant(64, ElementType.INT64),
        64,
    )
    assert isinstance(assign.value, Call)
    assert assign.value.name == "tile.and"
    assert assign.value.operands[1] == Operator(
        "+", (Constant(-1), Operator("*", (Variable("n"), Constant(2))))
    )
    assert (loop.kind, loop.carried, loop.step) == ("parallel", ("a",), Constant(2))
    assert isinstance(loop.body[0], Yield)


def test_references_of_march_name_their_space_and_address() -> None:
    function = program(
        kernel(
            tensor(4, 4).join(["x: ", ""]),
            "t: pl.Tile[[4, 4], pl.FP32, pl.MemRef(pl.MemorySpace.Mat, 256, 64, 3)] = pl.block.load(x, [0, 0], [4, 4])",
        )
    ).functions["kernel"]
    statement = function.body[0]
    assert isinstance(statement, Assign)
    assert isinstance(statement.value, Call)
    type_ = statement.targets[0].type
    assert isinstance(type_, TileType)
    assert type_.space is MemorySpace.MAT
    assert (type_.reference.base, type_.reference.offset) == (None, Constant(256))
    assert statement.value.name == "tile.load"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("t = lambda: 0", "expected an expression of the IR, found Lambda"),
        ("t = [x for x in y]", "expected an expression of the IR, found ListComp"),
        ("import os", "expected a statement of the IR, found Import"),
        ("t.u = 1", "expected an assignment to variables, found t.u = 1"),
        ("for i in range(", "expected Python, found"),
        ("for i in x:\n    pass", "expected a loop of the IR, found x"),
        ("t: pl.Tile[[4], pl.NOTHING] = x", "expected the type of an element, found pl.NOTHING"),
        ("t = " + "-" * 300 + "x", "expected at most 60 nested expressions"),
        ("t = " + "(" * 500 + "x" + ")" * 500, "expected Python, found"),
        ("t = 1" + "+1" * 5000, "expected"),
        ("for i in pl.range(2):\n    pass\nelse:\n    t = x", "expected a loop without `else`, found one"),
        ("while x:\n    pass\nelse:\n    t = x", "expected a loop without `else`, found one"),
        (
            "for (a, b) in pl.while_(init_values=(x,)):\n    pl.cond(a)\n    c = pl.yield_(a)",
            "expected as many initial values as carried ones, found 1 and 2",
        ),
        ("t = pl.tile.add(x, **x)", "expected named attributes, found `**`"),
        ("t = pl.tile.add(x, attrs={1: x})", "expected an attribute's name, found 1"),
        ("t = pl.tile.add(x, attrs={**x})", "expected an attribute's name, found `**`"),
        (
            "t: pl.Tile[[4], pl.FP32, pl.TileView([4])] = x",
            "expected named attributes, found pl.TileView([4])",
        ),
        ("t: pl.Tile[[4], pl.FP32, 3] = x", "expected a part of a type, found 3"),
    ],
)
def test_what_is_not_understood_costs_one_function_and_names_its_line(statement: str, problem: str) -> None:
    text = dump(
        kernel(f"x: {tensor(4)}", "a = x", statement, name="odd"),
        kernel(f"x: {tensor(4)}", "return x", name="even"),
    )
    found = read_program(text, "07_after_Odd.py")
    assert found.functions["even"].problem is None
    error = found.functions["odd"].problem
    assert error is not None
    assert problem in error.problem
    assert error.place.file == "07_after_Odd.py"
    odd = text.splitlines().index("        a = x") + 1
    assert odd - 1 <= error.place.line <= odd + 2


@pytest.mark.parametrize("parameters", ["*x: pl.INDEX", "*, x: pl.INDEX", "**x: pl.INDEX", "x: pl.INDEX = 1"])
def test_only_positional_parameters_without_defaults_are_understood(parameters: str) -> None:
    text = dump(kernel(parameters, "return 1"))
    problem = read_program(text, "case.py").functions["kernel"].problem
    assert problem is not None
    assert problem.problem == "expected positional parameters without defaults, found others"
    assert problem.place.line == text[: text.index("def kernel")].count("\n") + 1


def test_a_file_that_is_no_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "00_frontend.py"
    for content in (b"", b"print(1)", b"\xff\xfe", b"\0" * 100):
        path.write_bytes(content)
        with pytest.raises(MeaningError, match=r"00_frontend\.py:1: expected"):
            read_dump(path)
    with pytest.raises(MeaningError, match="expected a readable dump"):
        read_dump(tmp_path / "none.py")
    monkeypatch.setattr(dump_reader, "MAX_BYTES", 10)
    path.write_text(TWO)
    with pytest.raises(MeaningError, match="expected a dump of at most 10 bytes"):
        read_dump(path)


def mutate(text: str, seed: int) -> str:
    """Some bytes, words or lines of a dump changed, repeated or left out."""
    chance = random.Random(seed)
    words = [
        "(",
        ")",
        "[",
        "-1",
        "999999999999",
        "pl.range(10**9)",
        "self.main(x, y)",
        "\n",
        "\0",
        "pl.tile.add",
        "None",
    ]
    for _ in range(chance.randint(1, 4)):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(5)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 2:
            lines[at] = (
                lines[at][: chance.randint(0, len(lines[at]))]
                + chance.choice(words)
                + lines[at][chance.randint(0, len(lines[at])) :]
            )
        elif kind == 3:
            lines[at] = lines[at].replace("4", str(chance.choice([0, 5, -4, 1 << 40, 3])))
        else:
            lines[at] = "".join(
                chance.choice("[](),.:x0 ") if chance.random() < 0.05 else letter for letter in lines[at]
            )
        text = "\n".join(lines)
    return text


def test_mutated_dumps_end_in_an_error_line_or_in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precision_bisect.meaning.execution.MAX_STEPS", 2000)
    monkeypatch.setattr("precision_bisect.meaning.arithmetic.MAX_ELEMENTS", 1 << 16)
    ran, failed, lines = 0, 0, 0
    for seed in range(400):
        try:
            Execution(read_program(mutate(TWO, seed), "case.py")).run(
                {"x": torch.ones(4, 8), "y": torch.zeros(4, 8)}
            )
            ran += 1
        except MeaningError as error:
            failed += 1
            lines += str(error).count("\n")
    assert lines == 0
    assert min(ran, failed) > 40


def test_nothing_of_a_dump_is_executed(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    attack = f"__import__('pathlib').Path({str(witness)!r}).touch()"
    text = dump(kernel(f"x: {tensor(4)}, y: {attack}", f"t: {attack} = {attack}", attack, f"return {attack}"))
    found = read_program(f"{attack}\n{text}", "case.py")
    for function in found.functions.values():
        assert function.problem is not None or function.body
    with pytest.raises(MeaningError):
        Execution(found).run({"x": torch.ones(4), "y": torch.ones(4)})
    assert not witness.exists()


def test_a_function_may_be_called_as_an_operator_is() -> None:
    found = read_program(dump(kernel(f"x: {tensor(8, 8)}", "r = self.abs(x)")), "case.py")
    (statement,) = found.functions["kernel"].body
    assert isinstance(statement, Assign)
    assert isinstance(statement.value, Call)
    assert (statement.value.name, statement.value.is_function) == ("abs", True)


@pytest.mark.parametrize("condition", ["pl.cond()", "pl.cond(a, b)", "pl.other(a)", "a"])
def test_a_loop_without_its_condition_is_not_understood(condition: str) -> None:
    loop = f"for (a,) in pl.while_(init_values=(x,)):\n    {condition}\n    b = pl.yield_(a)"
    found = read_program(dump(kernel(f"x: {tensor(4)}", loop)), "case.py").functions["kernel"]
    assert "expected the loop's condition `cond(...)`, with one argument" in str(found.problem)


def test_attributes_of_a_function_may_stand_in_its_body() -> None:
    decorated = kernel("x: pl.Scalar[pl.INDEX]", "return x", attributes=', attrs={"split": 1}')
    stated = kernel("x: pl.Scalar[pl.INDEX]", 'pl.func_attr({"split": 1})', "return x")
    (one,), (other,) = (program(each).functions.values() for each in (decorated, stated))
    assert one.attributes["split"] == other.attributes["split"]
    assert len(one.body) == len(other.body) == 1
