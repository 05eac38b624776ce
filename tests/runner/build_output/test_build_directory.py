"""A whole build directory, its small parts, and builds for several chips."""

import json

import pytest
import torch

from precision_bisect.runner.build_output.directory import BuildDirectory, PassesDump, read_name_map
from precision_bisect.runner.build_output.files import (
    FileTooLargeError,
    MalformedFileError,
    MissingFileError,
)
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION, graph, record, write_dump


def write_build(path):
    """Every part that a build may have."""
    for place in ("orchestration", "passes_dump", "dfx_outputs", "data/in", "data/out"):
        (path / place).mkdir(parents=True)
    (path / "kernel_config.py").write_text(KERNEL_CONFIG)
    (path / "orchestration" / "sums.cpp").write_text(ORCHESTRATION)
    write_dump(path / "dfx_outputs" / "args_dump", [record(1, 0)])
    (path / "dfx_outputs" / "deps.json").write_text(json.dumps(graph()))
    (path / "dfx_outputs" / "name_map_sums.json").write_text(
        json.dumps({"level": 2, "orchestrator_name": None, "callable_id_to_name": {"0": "square", "-1": "x"}})
    )
    for place in ("in", "out"):
        torch.save(torch.ones(2), path / "data" / place / "x.pt")
    for name in ("10_after_Last.py", "00_frontend.py", "02_after_Next.txt", "notes.md", "x_after_y.py"):
        (path / "passes_dump" / name).write_text(name)
    return path


def test_a_whole_build(tmp_path):
    build = BuildDirectory.open(write_build(tmp_path))
    contents = build.contents
    assert (contents.kernel_config, contents.golden_data, contents.passes) == (
        "kernel_config.py",
        "data",
        "passes_dump",
    )
    assert (contents.dumps, contents.graphs) == (("dfx_outputs/args_dump",), ("dfx_outputs/deps.json",))
    assert contents.distributed_meta is None
    assert len(build.kernel_config().kernels) == 2
    assert [kernel.func_id for kernel in build.orchestration().submits[0].kernels] == [-1, 0, -1]
    assert len(build.args_dump()) == 1
    assert len(build.task_graph().tasks) == 2
    assert build.read_name_maps() == {0: "square", -1: "x"}
    assert build.golden_data().inputs.names == ("x",)
    passes = build.passes()
    assert [(dump.number, dump.name) for dump in passes.passes] == [
        (0, "frontend"),
        (2, "Next"),
        (10, "Last"),
    ]
    assert passes.text(passes.passes[1]) == "02_after_Next.txt"


def test_a_scene_test_s_outputs(tmp_path):
    write_dump(tmp_path / "args_dump", [record(1, 0)])
    (tmp_path / "deps.json").write_text(json.dumps(graph()))
    build = BuildDirectory.open(tmp_path)
    assert (build.contents.dumps, build.contents.graphs) == (("args_dump",), ("deps.json",))
    with pytest.raises(MissingFileError, match="--save-data"):
        build.golden_data()
    with pytest.raises(MissingFileError, match="--dump-passes"):
        build.passes()


def test_two_dumps_are_ambiguous(tmp_path):
    for name in ("args_dump", "tensor_dump"):
        write_dump(tmp_path / "dfx_outputs" / name, [record(1, 0)])
    with pytest.raises(MalformedFileError, match="one argument dump"):
        BuildDirectory.open(tmp_path).args_dump()


def test_a_build_of_several_chips_is_one_without_kernels_of_its_own(tmp_path):
    write_build(tmp_path / "next_levels" / "rank0")
    (tmp_path / "distributed_meta.json").write_text('{"version": 1, "ranks": ["rank0"]}')
    build = BuildDirectory.open(tmp_path)
    assert build.contents.distributed_meta == "distributed_meta.json"
    with pytest.raises(MissingFileError):
        build.kernel_config()


def test_what_is_no_build(tmp_path):
    with pytest.raises(MissingFileError, match="no part"):
        BuildDirectory.open(tmp_path)
    with pytest.raises(MissingFileError):
        BuildDirectory.open(tmp_path / "none")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"callable_id_to_name": {"a": "b"}}',
        '{"callable_id_to_name": {"0": 1}}',
        "{" * 10_000,
    ],
)
def test_bad_name_maps(tmp_path, text):
    (tmp_path / "name_map.json").write_text(text)
    with pytest.raises(MalformedFileError, match="a name map"):
        read_name_map(tmp_path / "name_map.json")


def test_too_large_a_pass_dump(tmp_path):
    with (tmp_path / "00_frontend.py").open("wb") as file:
        file.truncate(2**30)
    dumps = PassesDump.open(tmp_path)
    with pytest.raises(FileTooLargeError):
        dumps.text(dumps.passes[0])
