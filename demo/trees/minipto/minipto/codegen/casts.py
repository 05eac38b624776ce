"""Cast lowering: the C++ for one conversion between values that the kernel keeps as binary32."""

from __future__ import annotations

from ..types import CompileError, DType, RoundMode

# Bits of a binary32 fraction that the narrow type has no room for.
_DROPPED_BITS = {DType.BF16: 16, DType.FP16: 13}

_TO_NEAREST_EVEN = {DType.BF16: "round_to_bf16", DType.FP16: "round_to_f16", DType.INT32: "__builtin_rintf"}

ROUND_AWAY = """\
// The nearest value with `dropped` fewer bits, ties away from zero.
inline float round_away(float value, uint32_t dropped) {
    const uint32_t half = 1u << (dropped - 1);
    return f32_from_bits((f32_bits(value) + half) & ~(2 * half - 1));
}
"""


def lower_cast(value: str, source: DType, target: DType, round_mode: RoundMode | None) -> str:
    """The expression for `value` converted. Raises CompileError for a conversion the vector unit does not have."""
    if target is DType.FP32:
        return value
    if (source, target) == (DType.INT32, DType.INT8):
        return f"static_cast<float>(f32_to_i8({value}))"
    if source is DType.FP32 and target in _TO_NEAREST_EVEN:
        if round_mode is RoundMode.RINT:
            return f"{_TO_NEAREST_EVEN[target]}({value})"
        if round_mode is RoundMode.ROUND and target is DType.INT32:
            return f"__builtin_roundf({value})"
        if round_mode is RoundMode.ROUND:
            return f"round_away({value}, {_DROPPED_BITS[target]})"
    mode = round_mode.value if round_mode else "no rounding mode"
    raise CompileError(
        f"cast {source.label} -> {target.label} with {mode}: the vector unit has no such conversion"
    )
