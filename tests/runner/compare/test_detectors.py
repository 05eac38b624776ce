"""Each detector on the fault it is for, on another fault, and on noise."""

from collections.abc import Callable, Iterator

import pytest
import torch

from precision_bisect.runner.compare.finding import Pattern, PatternMatch, Scene, build_scene
from precision_bisect.runner.compare.numeric_patterns import (
    detect_narrower_type,
    detect_offset,
    detect_quantization,
    detect_saturation,
    detect_scale,
    detect_sign_flip,
)
from precision_bisect.runner.compare.spatial_patterns import (
    detect_permuted_blocks,
    detect_placement,
    detect_shift,
    detect_transposition,
)
from precision_bisect.runner.compare.statistics import Tolerance
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
    "scaled": (detect_scale, lambda x: x * 0.5, Pattern.SCALED, "0.5 times"),
    "offset": (detect_offset, lambda x: x + 3, Pattern.OFFSET, r"\+3 off"),
    "sign flipped": (detect_sign_flip, lambda x: -x, Pattern.SIGN_FLIPPED, "negated"),
    "saturated": (detect_saturation, lambda x: x.clamp(-1, 1), Pattern.SATURATED, "1"),
    "bfloat16": (detect_narrower_type, lambda x: x.bfloat16().float(), Pattern.NARROWER_TYPE, "bfloat16"),
    "int8": (detect_quantization, through_int8, Pattern.NARROWER_TYPE, "int8 with one scale"),
    "shifted": (
        detect_shift,
        lambda x: x.reshape(-1).roll(-5).reshape(x.shape),
        Pattern.SHIFTED,
        "5 elements further on",
    ),
    "transposed": (
        detect_transposition,
        lambda x: x.T.contiguous(),
        Pattern.TRANSPOSED,
        "axes 0 and 1 exchanged",
    ),
    "blocks": (detect_permuted_blocks, blocks_exchanged, Pattern.PERMUTED_BLOCKS, "16x16"),
    "tail": (detect_placement, tail, Pattern.TAIL, "the last 8 of 64 rows"),
    "tile": (detect_placement, tile, Pattern.TILE, "rows 16:32, columns 16:32"),
    "periodic": (detect_placement, every_fourth, Pattern.PERIODIC, "one of every 4 rows, from 1 on"),
}


def found_by(detector: Detector, actual: torch.Tensor, expected: torch.Tensor) -> list[PatternMatch]:
    scene = build_scene(view_of(actual), view_of(expected), Tolerance(rtol=0.0, atol=0.0))
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


@pytest.mark.parametrize(
    "detector", [detect_sign_flip, detect_saturation, detect_narrower_type, detect_quantization]
)
def test_flags_have_no_numeric_pattern(detector: Detector) -> None:
    flags = torch.tensor([True, False] * 32)
    assert found_by(detector, ~flags, flags) == []
