"""minirt's dependency inference: results under many orders of execution, and the graph in deps.json."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.demo.minirt_support import (
    ACCUMULATE,
    SCALE,
    elementwise,
    execute,
    orchestration,
    refresh,
    write_build,
)

SIZE = 6
BUFFERS = 3
SEEDS = range(12)


@dataclass(frozen=True)
class View:
    """A box of buffer `buffer`, given by its corner and shape in the buffer's own axes; then transposed or not."""

    buffer: int
    row: int
    column: int
    rows: int
    columns: int
    transposed: bool

    def of(self, buffers: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        box = buffers[self.buffer][self.row : self.row + self.rows, self.column : self.column + self.columns]
        return box.T if self.transposed else box

    def cpp(self, name: str) -> str:
        """Declares a ChipTensor `name`."""
        transpose = ".transpose(0, 1)" if self.transposed else ""
        return (
            f"uint32_t {name}_s[2] = {{{self.rows}, {self.columns}}};"
            f"uint32_t {name}_o[2] = {{{self.row}, {self.column}}};"
            f"ChipTensor {name} = x{self.buffer}.view({name}_s, {name}_o){transpose};"
        )


def random_view(rng: random.Random, buffer: int, rows: int, columns: int) -> View:
    transposed = rng.random() < 0.3
    if transposed:
        rows, columns = columns, rows
    return View(
        buffer, rng.randint(0, SIZE - rows), rng.randint(0, SIZE - columns), rows, columns, transposed
    )


def random_program(rng: random.Random, tasks: int) -> list[tuple[View, View]]:
    """(source, target) pairs of tasks `target = 2 * target + source`.

    Readers do not hold back later writers (the runtime orders writers before readers only), so an element that
    was read as a pure input is never written again.
    """
    was_read = [np.zeros((SIZE, SIZE), bool) for _ in range(BUFFERS)]
    program: list[tuple[View, View]] = []
    while len(program) < tasks:
        rows, columns = rng.randint(1, 3), rng.randint(1, 3)
        source_buffer, target_buffer = rng.sample(range(BUFFERS), 2)
        source = random_view(rng, source_buffer, rows, columns)
        target = random_view(rng, target_buffer, rows, columns)
        if not target.of(was_read).any():
            source.of(was_read)[...] = True
            program.append((source, target))
    return program


def submit_all(program: list[tuple[View, View]]) -> str:
    return "\n".join(
        f"{{ {source.cpp('s')} {target.cpp('t')} CoreTaskArgs p; p.add_input(s); p.add_inout(t);"
        " rt_submit_aiv_task(0, p); }"
        for source, target in program
    )


@pytest.mark.parametrize("program_seed", range(8))
def test_any_order_gives_the_sequential_result(
    program_seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(program_seed)
    program = random_program(rng, 16)
    doubling = elementwise("store(1, i, 2.0f * load(1, i) + load(0, i));")
    build = write_build(tmp_path / "b", orchestration(submit_all(program), BUFFERS), {"fma": doubling})
    refresh(build)

    initial = [
        np.random.default_rng(program_seed + i).integers(0, 9, (SIZE, SIZE)).astype(np.float32)
        for i in range(BUFFERS)
    ]
    expected = [buffer.copy() for buffer in initial]
    for source, target in program:
        destination = target.of(expected)
        destination[...] = 2 * destination + source.of(expected)

    orders = ["serial", "reverse", *(f"random:{seed}" for seed in SEEDS)]
    for order in [*orders, *([None] * 10)]:  # None: a pool of threads, seeded by the clock
        if order is None:
            monkeypatch.delenv("MINIRT_ORDER", raising=False)
        else:
            monkeypatch.setenv("MINIRT_ORDER", order)
        buffers = [buffer.copy() for buffer in initial]
        execute(build, *buffers)
        for actual, wanted in zip(buffers, expected, strict=True):
            np.testing.assert_array_equal(actual, wanted, err_msg=f"order {order}")


def split_k(declaration: str) -> str:
    """Task 0 stores, tasks 1 to 3 add to what is there."""
    return f"""
        for (int64_t k = 0; k < 4; ++k) {{
            CoreTaskArgs params;
            params.add_input(x0);
            params.{declaration}(x1);
            params.add_scalar(k);
            rt_submit_aic_task(0, params);
        }}
    """


def outcomes(build: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether the sum of four ones came out, by order."""
    passed: dict[str, bool] = {}
    for order in ["serial", "reverse", *(f"random:{seed}" for seed in range(30))]:
        monkeypatch.setenv("MINIRT_ORDER", order)
        x, y = np.ones(4, np.float32), np.full(4, -100, np.float32)
        execute(build, x, y)
        passed[order] = bool((y == 4).all())
    return passed


def test_add_output_in_place_of_add_inout_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accumulate = elementwise(
        "store(1, i, scalar<int64_t>(args, 0) == 0 ? load(0, i) : load(1, i) + load(0, i));"
    )
    good = write_build(tmp_path / "good", orchestration(split_k("add_inout"), 2), {"mm": accumulate})
    racy = write_build(tmp_path / "racy", orchestration(split_k("add_output"), 2), {"mm": accumulate})
    assert all(outcomes(refresh(good), monkeypatch).values())

    first = outcomes(refresh(racy), monkeypatch)
    assert first["serial"]
    assert not first["reverse"]
    assert {passed for order, passed in first.items() if order.startswith("random:")} == {True, False}
    assert outcomes(racy, monkeypatch) == first


def test_a_writer_does_not_wait_for_earlier_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
        CoreTaskArgs reader;
        reader.add_input(x0);
        reader.add_output(x1);
        rt_submit_aiv_task(0, reader);
        CoreTaskArgs writer;
        writer.add_input(x2);
        writer.add_output(x0);
        rt_submit_aiv_task(0, writer);
    """
    build = refresh(write_build(tmp_path / "b", orchestration(body, 3), {"scale": elementwise(SCALE)}))
    results: dict[str, float] = {}
    for order in ("serial", "reverse"):
        monkeypatch.setenv("MINIRT_ORDER", order)
        x, y, z = np.full(2, 1, np.float32), np.zeros(2, np.float32), np.full(2, 10, np.float32)
        execute(build, x, y, z)
        results[order] = float(y[0])
    assert results == {"serial": 2.0, "reverse": 40.0}


MANUAL = """
    PTO2_SCOPE(PTO2ScopeMode::MANUAL) {
        CoreTaskArgs first;
        first.add_input(x0);
        first.add_inout(x1);
        TaskOutputTensors done = rt_submit_aiv_task(0, first);
        CoreTaskArgs second;
        second.add_input(x1);
        second.add_inout(x2);
        PTO2TaskId dependencies[1] = {done.task_id()};
        SET
        rt_submit_aiv_task(0, second);
    }
"""


@pytest.mark.parametrize(("explicit", "result"), [(True, 2.0), (False, 1.0)])
def test_manual_scopes_know_explicit_dependencies_only(
    explicit: bool, result: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = MANUAL.replace("SET", "second.set_dependencies(dependencies, 1);" if explicit else "")
    build = write_build(tmp_path / "b", orchestration(body, 3), {"accumulate": elementwise(ACCUMULATE)})
    refresh(build)
    monkeypatch.setenv("MINIRT_ORDER", "reverse")
    x, y, z = np.ones(2, np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)
    execute(build, x, y, z, dep_gen=True)
    assert z[0] == result

    graph = json.loads((build / "dfx_outputs" / "deps.json").read_text())
    assert [task["scope"] for task in graph["tasks"]] == ["manual", "manual"]
    first, second = (task["task_id"] for task in graph["tasks"])
    edge = {"pred": first, "succ": second, "arg": -1, "source": "explicit", "flags": ["wait", "retain"]}
    assert graph["edges"] == ([edge] if explicit else [])


# scale -> expo -> cat -> two mm tiles -> bias, as the recorded pypto program does it.
RECORDED_CHAIN = """
    PTO2_SCOPE() {
        uint32_t n[2] = {4, 4};
        TensorCreateInfo ci(n, 2);
        TaskOutputTensors alloc_0 = alloc_tensors(ci, ci, ci, ci);
        const ChipTensor& a = alloc_0.get_ref(0);
        const ChipTensor& b = alloc_0.get_ref(1);
        const ChipTensor& c = alloc_0.get_ref(2);
        const ChipTensor& d = alloc_0.get_ref(3);
        CoreTaskArgs p0; p0.add_input(x0); p0.add_inout(a); rt_submit_aiv_task(0, p0);
        CoreTaskArgs p1; p1.add_input(a); p1.add_inout(b); rt_submit_aiv_task(0, p1);
        CoreTaskArgs p2; p2.add_input(a); p2.add_input(b); p2.add_inout(c); rt_submit_aiv_task(0, p2);
        for (int64_t n0 = 0; n0 < 2; n0 += 1) { PTO2_SCOPE() {
            CoreTaskArgs p3; p3.add_input(c); p3.add_input(x1); p3.add_output(d); p3.add_scalar(n0);
            rt_submit_aic_task(0, p3);
        } }
        CoreTaskArgs p4; p4.add_input(d); p4.add_input(x0); p4.add_inout(x2); rt_submit_aiv_task(0, p4);
    }
"""
RING = 1 << 32
ALLOC, SCALE_ID, EXPO, CAT, BIAS = (RING + i for i in range(5))
MM0, MM1 = 2 * RING, 2 * RING + 1
RECORDED_EDGES = {
    (ALLOC, SCALE_ID, 1, "creator"),
    (ALLOC, EXPO, 0, "creator"),
    (SCALE_ID, EXPO, 0, "tensormap"),
    (ALLOC, CAT, 0, "creator"),
    (SCALE_ID, CAT, 0, "tensormap"),
    (EXPO, CAT, 1, "tensormap"),
    (ALLOC, MM0, 0, "creator"),
    (CAT, MM0, 0, "tensormap"),
    (ALLOC, MM1, 0, "creator"),
    (CAT, MM1, 0, "tensormap"),
    (ALLOC, BIAS, 0, "creator"),
    (MM1, BIAS, 0, "tensormap"),
    (MM0, BIAS, 0, "tensormap"),
}


def test_deps_json_has_the_edges_and_keys_of_the_recorded_chain(tmp_path: Path) -> None:
    build = write_build(tmp_path / "b", orchestration(RECORDED_CHAIN, 3), {"any": elementwise("")})
    refresh(build)
    execute(build, *(np.zeros((4, 4), np.float32) for _ in range(3)), dep_gen=True)
    graph = json.loads((build / "dfx_outputs" / "deps.json").read_text())

    assert [int(task["task_id"]) for task in graph["tasks"]] == [ALLOC, SCALE_ID, EXPO, CAT, MM0, MM1, BIAS]
    assert [task["kernel_ids"] for task in graph["tasks"]] == [
        [-1, -1, -1],
        *[[-1, 0, -1]] * 3,
        *[[0, -1, -1]] * 2,
        [-1, 0, -1],
    ]
    edges = {(int(e["pred"]), int(e["succ"]), e["arg"], e["source"]) for e in graph["edges"]}
    assert edges == RECORDED_EDGES
    assert len(graph["edges"]) == len(RECORDED_EDGES)
    assert list(graph["tasks"][1]) == [
        "task_id",
        "scope",
        "early_dispatch",
        "kernel_ids",
        "block_num",
        "args",
    ]
    assert graph["tasks"][0]["args"] == [{"idx": i, "type": "OUTPUT"} for i in range(4)]
    assert list(graph["tasks"][1]["args"][0]) == [
        *("idx", "type", "tensor_id", "dtype", "shape", "start_offset", "strides")
    ]
    assert [argument["type"] for argument in graph["tasks"][4]["args"]] == [
        "INPUT",
        "INPUT",
        "OUTPUT_EXISTING",
    ]
    assert [list(tensor) for tensor in graph["tensors"]] == [
        ["tensor_id", "buffer_addr", "version", "dtype", "buffer_numel"]
    ] * 7
    consumer = ["consumer_dtype", "consumer_shape", "consumer_start_offset", "consumer_strides"]
    producer = ["producer_shape", "producer_start_offset", "producer_strides"]
    for edge in graph["edges"]:
        head = ["pred", "succ", "arg", "source", "flags"]
        if edge["source"] == "creator":
            assert list(edge) == [*head, "tensor_id", *consumer]
            assert edge["flags"] == ["wait", "retain"]
        else:
            assert list(edge) == [*head, "overlap", "tensor_id", *consumer, *producer]
            assert (edge["flags"], edge["overlap"]) == (["wait"], "covered")
    names = json.loads((build / "dfx_outputs" / "name_map_b.json").read_text())
    assert names == {"level": 0, "orchestrator_name": None, "callable_id_to_name": {"0": "any"}}
    known = {tensor["tensor_id"] for tensor in graph["tensors"]}
    assert {edge["tensor_id"] for edge in graph["edges"]} <= known


def test_an_inout_takes_the_place_of_the_writers_it_covers(tmp_path: Path) -> None:
    whole, half, rest = (View(0, row, 0, rows, 6, False) for row, rows in ((0, 6), (0, 3), (3, 3)))
    sources = {6: View(1, 0, 0, 6, 6, False), 3: View(1, 0, 0, 3, 6, False)}
    sink = View(2, 0, 0, 3, 6, False)
    program = [
        (sources[6], whole),  # 0
        (sources[3], half),  # 1: covers a part of 0's region only, so 0 stays
        (rest, sink),  # 2: waits for 0
        (sources[6], whole),  # 3: waits for 0 and 1, and covers both
        (half, sink),  # 4: waits for 3 alone, and for 2 because of the sink
    ]
    build = write_build(tmp_path / "b", orchestration(submit_all(program), 3), {"any": elementwise("")})
    execute(refresh(build), *(np.zeros((SIZE, SIZE), np.float32) for _ in range(3)), dep_gen=True)
    graph = json.loads((build / "dfx_outputs" / "deps.json").read_text())
    edges = sorted((int(e["succ"]), int(e["pred"]), e["arg"], e["overlap"]) for e in graph["edges"])
    assert edges == [
        (1, 0, 1, "other"),
        (2, 0, 0, "other"),
        (3, 0, 1, "covered"),
        (3, 1, 1, "covered"),
        (4, 2, 1, "covered"),
        (4, 3, 0, "other"),
    ]


def test_partial_overlap_is_called_other(tmp_path: Path) -> None:
    program = [(View(1, 0, 0, 2, 4, False), View(0, 0, 0, 2, 4, False))]
    program.append((View(2, 0, 0, 3, 2, False), View(0, 1, 3, 3, 2, False)))  # meets the first in one element
    program.append((View(2, 3, 0, 2, 2, False), View(0, 4, 0, 2, 2, False)))  # meets neither, though rows do
    build = write_build(tmp_path / "b", orchestration(submit_all(program), 3), {"any": elementwise("")})
    execute(refresh(build), *(np.zeros((SIZE, SIZE), np.float32) for _ in range(3)), dep_gen=True)
    graph = json.loads((build / "dfx_outputs" / "deps.json").read_text())
    [edge] = graph["edges"]
    assert (edge["pred"], edge["succ"], edge["arg"], edge["overlap"]) == ("0", "1", 1, "other")
    assert (edge["consumer_start_offset"], edge["producer_start_offset"]) == ("9", "0")
    assert (edge["consumer_shape"], edge["consumer_strides"]) == ([3, 2], [SIZE, 1])
