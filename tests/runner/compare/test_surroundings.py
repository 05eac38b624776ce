"""What is looked up around a dump."""

import json
from pathlib import Path

from precision_bisect.runner.build_output.args_dump import ArgsDump
from precision_bisect.runner.compare.sources import DumpContext
from tests.runner.build_output.build_files import KERNEL_CONFIG, record, write_dump


def test_names_come_from_the_kernel_list_and_from_name_maps(tmp_path: Path) -> None:
    (tmp_path / "kernel_config.py").write_text(KERNEL_CONFIG)
    dump = write_dump(tmp_path / "dfx_outputs" / "args_dump", [record(1, 0)])
    listed = DumpContext.read(dump).names
    assert listed
    named = {"callable_id_to_name": {"-7": "softmax"}}
    (tmp_path / "dfx_outputs" / "name_map_case.json").write_text(json.dumps(named))
    assert DumpContext.read(dump).names == {**listed, -7: "softmax"}


def test_tasks_without_a_graph_follow_their_ids_inputs_first(tmp_path: Path) -> None:
    records = [record(2, 0), record(1, 1, role="output", stage="after_completion"), record(1, 0)]
    dump = ArgsDump.open(write_dump(tmp_path / "dump", records))
    around = DumpContext.read(dump.folder.root)
    every = sorted((dump.record(index) for index in range(3)), key=around.sort_key)
    assert [(each.task_id, each.arg_index) for each in every] == [(1, 0), (1, 1), (2, 0)]
    assert [around.kernels_of(each) for each in every] == ["", "", ""]


def test_what_cannot_be_read_is_said_and_does_not_stop_it(tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump", [record(1, 0)])
    (tmp_path / "deps.json").write_text("[")
    (reason,) = DumpContext.read(dump).read_errors
    assert reason.startswith(f"{tmp_path / 'deps.json'}: expected a task graph")
