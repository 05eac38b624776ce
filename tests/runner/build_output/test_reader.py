"""The walk over an orchestration: submits, allocations, and the blocks that they stand in."""

from precision_bisect.runner.build_output.orchestration import (
    Bindings,
    BlockKind,
    Constants,
    OrchestrationReader,
    Usage,
    parse_cpp,
)


def read(body: str) -> OrchestrationReader:
    root = parse_cpp(f"void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {{ {body} }}".encode())
    reader = OrchestrationReader(
        Bindings(constants=Constants.from_tree(root), entry_parameters=frozenset({"orch_args"}))
    )
    reader.visit(root)
    return reader


TASK = "CoreTaskArgs p; p.add_input(a); p.add_output(b); p.add_scalar(c); rt_submit_aiv_task(7, p);"


def test_a_submit_has_the_arguments_that_its_variable_gathered() -> None:
    (submit,) = read(TASK).submits
    assert [(one.usage, one.text) for one in submit.arguments] == [
        (Usage.INPUT, "a"),
        (Usage.OUTPUT, "b"),
        (Usage.SCALAR, "c"),
    ]
    assert [kernel.func_id for kernel in submit.kernels] == [-1, 7, -1]


def test_a_variable_of_an_inner_scope_hides_the_outer_one() -> None:
    first, second = read(
        f"CoreTaskArgs p; p.add_input(outer); {{ {TASK} }} rt_submit_aiv_task(8, p);"
    ).submits
    assert [one.text for one in first.arguments] == ["a", "b", "c"]
    assert [one.text for one in second.arguments] == ["outer"]


def test_a_submit_knows_the_loops_branches_and_scopes_around_it() -> None:
    (submit,) = read(f"PTO2_SCOPE() {{ for (int i = 0; i < 4; ++i) {{ if (i) {{ {TASK} }} }} }}").submits
    kinds = [block.kind for block in submit.blocks]
    assert kinds[1:] == [BlockKind.LOOP, BlockKind.BRANCH]
    assert len(kinds) == 3
    assert all(
        inner.span in outer.span for outer, inner in zip(submit.blocks, submit.blocks[1:], strict=False)
    )


def test_allocations_are_told_apart_from_submits() -> None:
    reader = read("TaskOutputTensors made = alloc_tensors(info, info);")
    assert reader.submits == []
    assert len(reader.allocations) == 1
