"""Each detector on the fault it is for, on another fault, and on noise."""

from collections.abc import Callable, Iterator

import pytest
import torch

from precision_bisect.runner.compare.patterns.finding import Pattern, PatternMatch
from precision_bisect.runner.compare.patterns.numeric.arithmetic import (
    offset,
    saturated,
    scaled,
    sign_flipped,
)
from precision_bisect.runner.compare.patterns.numeric.narrowing import narrower_type, quantized
from precision_bisect.runner.compare.patterns.scene import Scene, look
from precision_bisect.runner.compare.patterns.spatial.blocks import permuted_blocks
from precision_bisect.runner.compare.patterns.spatial.movement import shifted, transposed
from precision_bisect.runner.compare.patterns.spatial.placement import placement
from precision_bisect.runner.compare.statistics.statistics import Tolerance
from tests.runner.compare.tensor_makers import view_of

Detector = Callable[[Scene], Iterator[PatternMatch]]
Fault = Callable[[torch.Tensor], torch.Tensor]


def tail(values: torch.Tensor) -> torch.Tensor:
    wrong = values.clone()
    wrong[-8:] += torch.rand(8, 64) + 1
    return wrong


def tile(values: torch.Tensor) -> torch.Tensor:
    wrong = values.clone()
    wrong[16:32, 16:32] += torch.rand(16, 16) + 1
    return wrong


def every_fourth(values: torch.Tensor) -> torch.Tensor:
    wrong = values.clone()
    wrong[1::4] += torch.rand(16, 64) + 1
    return wrong


def blocks_exchanged(values: torch.Tensor) -> torch.Tensor:
    wrong = values.clone()
    wrong[:16, :16], wrong[32:48, 32:48] = values[32:48, 32:48], values[:16, :16]
    return wrong


def through_int8(values: torch.Tensor) -> torch.Tensor:
    step = values.abs().max() / 127
    return (values / step).round().clamp(-127, 127) * step


FAULTS: dict[str, tuple[Detector, Fault, Pattern, str]] = {
    "scaled": (scaled, lambda x: x * 0.5, Pattern.SCALED, "0.5 times"),
    "offset": (offset, lambda x: x + 3, Pattern.OFFSET, r"\+3 off"),
    "sign flipped": (sign_flipped, lambda x: -x, Pattern.SIGN_FLIPPED, "negated"),
    "saturated": (saturated, lambda x: x.clamp(-1, 1), Pattern.SATURATED, "1"),
    "bfloat16": (narrower_type, lambda x: x.bfloat16().float(), Pattern.NARROWER_TYPE, "bfloat16"),
    "int8": (quantized, through_int8, Pattern.NARROWER_TYPE, "int8 with one scale"),
    "shifted": (
        shifted,
        lambda x: x.reshape(-1).roll(-5).reshape(x.shape),
        Pattern.SHIFTED,
        "5 elements further on",
    ),
    "transposed": (transposed, lambda x: x.T.contiguous(), Pattern.TRANSPOSED, "axes 0 and 1 exchanged"),
    "blocks": (permuted_blocks, blocks_exchanged, Pattern.PERMUTED_BLOCKS, "16x16"),
    "tail": (placement, tail, Pattern.TAIL, "the last 8 of 64 rows"),
    "tile": (placement, tile, Pattern.TILE, "rows 16:32, columns 16:32"),
    "periodic": (placement, every_fourth, Pattern.PERIODIC, "one of every 4 rows, from 1 on"),
}


def found_by(detector: Detector, actual: torch.Tensor, expected: torch.Tensor) -> list[PatternMatch]:
    scene = look(view_of(actual), view_of(expected), Tolerance(rtol=0.0, atol=0.0))
    assert scene is not None
    return list(detector(scene))


@pytest.fixture(name="expected")
def make_expected() -> torch.Tensor:
    torch.manual_seed(11)
    return torch.randn(64, 64)


@pytest.mark.parametrize("name", FAULTS)
def test_a_detector_is_sure_of_its_own_fault(name: str, expected: torch.Tensor) -> None:
    detector, fault, pattern, evidence = FAULTS[name]
    (match,) = found_by(detector, fault(expected), expected)
    assert match.pattern is pattern
    assert match.confidence > 0.95
    assert evidence.replace("\\", "") in match.evidence


@pytest.mark.parametrize("name", FAULTS)
def test_a_detector_is_not_sure_of_noise(name: str, expected: torch.Tensor) -> None:
    noise = expected + torch.randn(64, 64)
    assert all(match.confidence < 0.1 for match in found_by(FAULTS[name][0], noise, expected))


@pytest.mark.parametrize("detector", [sign_flipped, saturated, narrower_type, quantized])
def test_flags_have_no_numeric_pattern(detector: Detector) -> None:
    flags = torch.tensor([True, False] * 32)
    assert found_by(detector, ~flags, flags) == []
