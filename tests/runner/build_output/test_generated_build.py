"""Readers against each other, on a build that a real compiler and runtime made and on the recorded ones."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.args_dump import ArgRecord, ArgumentRole, DumpStage
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.build_output.orchestration import SubmitKind, Usage
from precision_bisect.runner.build_output.task_graph import ArgumentType, GraphArgument, GraphTask, Region

TREES = Path(__file__).parents[3] / "demo" / "trees"
USAGE = {
    ArgumentType.INPUT: Usage.INPUT,
    ArgumentType.OUTPUT: Usage.OUTPUT,
    ArgumentType.OUTPUT_EXISTING: Usage.OUTPUT,
    ArgumentType.INOUT: Usage.INOUT,
}


def run(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> BuildDirectory:
    """A case of the demo stack, compiled, run and dumped."""
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        pytest.skip("no C++ compiler to build the demo stack with")
    home = tmp_path_factory.mktemp("demo")
    for tree in ("minirt", "minipto", "minilib"):
        shutil.copytree(TREES / tree, home / tree, ignore=shutil.ignore_patterns("build", "__pycache__"))
    run(["build.py"], home / "minirt")
    options = [
        "-p",
        "a2a3sim",
        "-d",
        "0",
        "--dump-args",
        "2",
        "--enable-dep-gen",
        "--dump-passes",
        "--save-data",
    ]
    path = os.pathsep.join(str(home / tree) for tree in ("minirt", "minipto", "minilib"))
    run(["minilib/cases/attention_decode.py", *options], home, PYTHONPATH=path)
    (build,) = (home / "build_output").iterdir()
    return BuildDirectory.open(build)


def test_everything_is_there(generated):
    contents = generated.contents
    assert all((contents.dumps, contents.graphs, contents.name_maps, contents.golden_data, contents.passes))
    assert generated.args_dump().inconsistencies == ()
    assert generated.orchestration().syntax_errors == ()


def test_kernel_list_names_files_and_name_map(generated):
    config = generated.kernel_config()
    assert all(generated.folder.has_file(kernel.source) for kernel in config.kernels.values())
    assert generated.read_name_maps() == {kernel.func_id: kernel.name for kernel in config.kernels.values()}


def test_every_task_that_ran_is_a_submit_in_the_source(generated):
    """Kernels and usages, read off the text, are what the runtime recorded."""
    submits = {
        tuple(kernel.func_id for kernel in submit.kernels): [one.usage for one in submit.tensor_arguments]
        for submit in generated.orchestration().submits
        if submit.kind is not SubmitKind.DUMMY
    }
    tasks = [task for task in generated.task_graph().tasks.values() if task.runs_a_kernel]
    assert {task.kernels for task in tasks} == set(submits)
    for task in tasks:
        assert [USAGE[argument.type] for argument in task.arguments] == submits[task.kernels]


def test_signature_has_the_entry_s_arguments(generated):
    source = generated.orchestration()
    assert len(generated.kernel_config().orchestration.signature) == len(source.entry_tensors)
    assert source.expected_arg_count.value == len(source.entry_tensors) + len(source.entry_scalars)
    golden = generated.golden_data()
    named = {tensor.name.removeprefix("ext_") for tensor in source.entry_tensors}
    assert named <= {*golden.inputs.names, *golden.outputs.names}


def check_values_travel_along_edges(build: BuildDirectory) -> int:
    """What a task read is, bit for bit, what the last writer of that region left; says how often that was seen.

    Tensors that two tasks may write at the same time (tiles of one output) are left out from then on.
    """
    dump, graph = build.args_dump(), build.task_graph()
    left: dict[int, tuple[int, Region | None, ArgRecord]] = {}
    shared: set[int] = set()
    seen = 0

    def value(task: GraphTask, argument: GraphArgument, stage: DumpStage) -> ArgRecord:
        (record,) = dump.find(task_id=task.task_id, arg_index=argument.index, stage=stage)
        return record

    for task in graph.tasks.values():
        for argument in task.arguments:
            if argument.type.may_read and argument.tensor_id in left.keys() - shared:
                _, region, written = left[argument.tensor_id]
                if region == argument.region:
                    read = value(task, argument, DumpStage.BEFORE_DISPATCH)
                    assert torch.equal(dump.tensor(read).torch(), dump.tensor(written).torch())
                    seen += 1
        for argument in task.arguments:
            if argument.type.may_write and argument.tensor_id is not None and task.runs_a_kernel:
                before = left.get(argument.tensor_id)
                if before is not None and before[0] not in graph.ancestors(task.task_id):
                    shared.add(argument.tensor_id)
                written = value(task, argument, DumpStage.AFTER_COMPLETION)
                left[argument.tensor_id] = (task.task_id, argument.region, written)
    return seen


def test_values_travel_along_edges(generated):
    assert check_values_travel_along_edges(generated) > 10


@pytest.mark.parametrize("name", ["chain_level2_good", "chain_level2_bad", "paged_attention"])
def test_values_travel_along_recorded_edges(recorded, name):
    assert check_values_travel_along_edges(BuildDirectory.open(recorded / name)) > 3


def test_inputs_in_the_dump_are_the_frozen_ones(recorded):
    build = BuildDirectory.open(recorded / "chain_level2_good")
    dump, inputs = build.args_dump(), build.golden_data().inputs
    first = dump.find(task_id=dump.task_ids()[0], role=ArgumentRole.INPUT)[0]
    assert torch.equal(dump.tensor(first).torch(), inputs.tensor("x").torch())


def test_last_output_is_the_golden_one(recorded):
    for name, passes in (("chain_level2_good", True), ("chain_level2_bad", False)):
        build = BuildDirectory.open(recorded / name)
        dump, graph = build.args_dump(), build.task_graph()
        final = graph.topological_order[-1]
        (record,) = dump.find(task_id=final, stage=DumpStage.AFTER_COMPLETION)
        golden = build.golden_data().outputs.tensor("out").torch()
        assert torch.allclose(dump.tensor(record).torch(), golden, rtol=1e-3, atol=1e-3) == passes
