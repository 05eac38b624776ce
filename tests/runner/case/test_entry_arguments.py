"""The arguments of a build directory's orchestration, with the types and shapes of its frozen data."""

import json
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.directory import BuildDirectory, GoldenData
from precision_bisect.runner.case.preflight import (
    EntryScalar,
    EntryTensor,
    argument_names,
    entry_arguments,
    write_specs,
)
from precision_bisect.runner.errors import UserError
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION


@pytest.fixture(name="build")
def make_build(tmp_path: Path) -> Path:
    (tmp_path / "orchestration").mkdir()
    (tmp_path / "kernel_config.py").write_text(KERNEL_CONFIG)
    (tmp_path / "orchestration" / "sums.cpp").write_text(ORCHESTRATION)
    for folder, tensors in {
        "in": {"x": torch.ones(64, 32), "y": torch.zeros(64, 32), "factor": torch.tensor(2.5)},
        "out": {"y": torch.ones(64, 32)},
    }.items():
        (tmp_path / "data" / folder).mkdir(parents=True)
        for name, tensor in tensors.items():
            torch.save(tensor, tmp_path / "data" / folder / f"{name}.pt")
    return tmp_path


def arguments(build: Path) -> tuple[EntryTensor | EntryScalar, ...]:
    return entry_arguments(BuildDirectory.open(build), GoldenData.open(build / "data"))


def test_tensors_come_in_the_order_of_the_signature_and_scalars_behind(build: Path, tmp_path: Path) -> None:
    x, y, factor = arguments(build)
    shape = (64, 32)
    assert x == EntryTensor(name="x", dtype="float32", shape=shape, is_output=False, has_input=True)
    assert y == EntryTensor(name="y", dtype="float32", shape=shape, is_output=True, has_input=True)
    assert factor == EntryScalar(name="factor", dtype="float32", value=2.5)
    assert argument_names(build, BuildDirectory.open(build).orchestration()) == ("x", "y", "factor")
    write_specs((x, y, factor), tmp_path / "specs.json")
    written = json.loads((tmp_path / "specs.json").read_text())
    assert [(one["name"], one["kind"]) for one in written] == [
        ("x", "tensor"),
        ("y", "tensor"),
        ("factor", "scalar"),
    ]


def test_another_prefix_of_all_names_is_taken_off(build: Path) -> None:
    """As a later compiler may spell them."""
    ours = arguments(build)
    source = build / "orchestration" / "sums.cpp"
    source.write_text(ORCHESTRATION.replace("ext_", "arg_in_"))
    assert arguments(build) == ours
    source.write_text(ORCHESTRATION.replace("ext_x", "arg_x").replace("ext_y", "other_y"))
    with pytest.raises(UserError, match="frozen data for the argument arg_x, found"):
        arguments(build)


def test_without_a_signature_an_output_is_what_the_data_has_as_one(build: Path) -> None:
    (build / "kernel_config.py").write_text(KERNEL_CONFIG.replace('"signature": [_D.IN, _D.INOUT],\n', ""))
    x, y, _ = arguments(build)
    assert isinstance(x, EntryTensor)
    assert isinstance(y, EntryTensor)
    assert (x.is_output, y.is_output) == (False, True)


def test_data_of_another_build_is_refused_by_the_argument_it_lacks(build: Path) -> None:
    (build / "data" / "in" / "factor.pt").unlink()
    with pytest.raises(UserError, match="frozen data for the argument factor, found"):
        arguments(build)


def test_a_source_that_leaves_a_tensor_out_is_refused(build: Path) -> None:
    source = build / "orchestration" / "sums.cpp"
    source.write_text(ORCHESTRATION.replace("orch_args.tensor(1)", "orch_args.tensor(2)"))
    with pytest.raises(UserError, match=r"names each tensor argument once, found indices \[0, 2\]"):
        arguments(build)
