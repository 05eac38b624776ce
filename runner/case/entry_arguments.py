"""The arguments that a build's orchestration takes, as the golden harness is told of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..build_output.build_directory import BuildDirectory
from ..build_output.golden_data import GoldenData
from ..build_output.kernel_config import Direction
from ..build_output.orchestration.model import TensorName
from ..build_output.orchestration.orchestration import Orchestration
from ..errors import UserError

_PREFIX = "ext_"


@dataclass(frozen=True, kw_only=True)
class EntryTensor:
    """A tensor argument; `shape` in elements, `dtype` as torch spells it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    has_input: bool
    kind: str = "tensor"


@dataclass(frozen=True, kw_only=True)
class EntryScalar:
    """A scalar argument; its value comes from the frozen data."""

    name: str
    dtype: str
    value: float
    kind: str = "scalar"


EntryArgument = EntryTensor | EntryScalar


def entry_arguments(build: BuildDirectory, data: GoldenData) -> tuple[EntryArgument, ...]:
    """Tensors in the order of the signature, then scalars, with the types and shapes of the frozen data.

    Raises:
        UserError: the source does not tell all arguments, or the data lacks one.
    """
    orchestration = build.orchestration()
    signature = build.kernel_config().orchestration.signature
    tensors = _tensors(build.folder.root, orchestration)
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    prefix = _prefix([argument.name for argument in (*tensors, *scalars)], data)
    found: list[EntryArgument] = []
    for position, tensor in enumerate(tensors):
        direction = signature[position] if signature and position < len(signature) else None
        found.append(_tensor(_name(tensor.name, prefix, data, outputs=True), direction, data))
    for scalar in scalars:
        name = _name(scalar.name, prefix, data, outputs=False)
        view = data.inputs.tensor(name)
        found.append(
            EntryScalar(name=name, dtype=view.dtype.torch_name, value=float(view.torch().reshape(-1)[0]))
        )
    return tuple(found)


def argument_names(build: Path, orchestration: Orchestration) -> tuple[str, ...]:
    """What the source calls its arguments: tensors in the order of the signature, then scalars.

    Raises:
        UserError: it does not tell all tensors.
    """
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    spelled = (*_tensors(build, orchestration), *scalars)
    return tuple(argument.name.removeprefix(_PREFIX) for argument in spelled)


def _tensors(build: Path, orchestration: Orchestration) -> list[TensorName]:
    tensors = sorted(orchestration.entry_tensors, key=lambda tensor: tensor.index or 0)
    if not tensors or [tensor.index for tensor in tensors] != list(range(len(tensors))):
        raise UserError(
            f"{build}: expected an orchestration that names each tensor argument once, found indices "
            f"{[tensor.index for tensor in tensors]}"
        )
    return tensors


def write_specs(arguments: Sequence[EntryArgument], path: Path) -> None:
    """Writes them as `replay_case.py` reads them."""
    path.write_text(json.dumps([asdict(argument) for argument in arguments]), encoding="utf-8")


def _tensor(name: str, direction: Direction | None, data: GoldenData) -> EntryTensor:
    is_output = name in data.outputs.names if direction is None else direction is not Direction.IN
    has_input = name in data.inputs.names
    view = (data.inputs if has_input else data.outputs).tensor(name)
    return EntryTensor(
        name=name, dtype=view.dtype.torch_name, shape=view.shape, is_output=is_output, has_input=has_input
    )


def _prefix(spelled: Sequence[str], data: GoldenData) -> str:
    """What generated code puts before the names of tensors: `ext_`, or what another version of a compiler puts there
    instead. Scalars may go without."""
    known = {*data.inputs.names, *data.outputs.names}
    first = spelled[0]
    others = (first.removesuffix(name) for name in sorted(known) if first.endswith(f"_{name}"))
    for prefix in (_PREFIX, *others):
        if all(name in known or name.removeprefix(prefix) in known for name in spelled):
            return prefix
    return _PREFIX


def _name(spelled: str, prefix: str, data: GoldenData, *, outputs: bool) -> str:
    """The name under which the data has an argument."""
    known = {*data.inputs.names, *(data.outputs.names if outputs else ())}
    for name in (spelled, spelled.removeprefix(prefix)):
        if name in known:
            return name
    raise UserError(
        f"{data.inputs.folder.root.parent}: expected frozen data for the argument {spelled}, found {sorted(known)}; "
        "name the data that the build was run on (--golden-data)"
    )
