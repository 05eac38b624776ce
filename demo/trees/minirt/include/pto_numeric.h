// Narrow number formats in software: every machine computes the same bits.
#pragma once

#include <stdint.h>

#include "pto_data_type.h"

inline uint32_t f32_bits(float value) { return from_u64<uint32_t>(to_u64(value)); }
inline float f32_from_bits(uint32_t bits) { return from_u64<float>(bits); }

inline float bf16_to_f32(uint16_t bits) { return f32_from_bits(static_cast<uint32_t>(bits) << 16); }

// Round to nearest, ties to even; a NaN stays a (quiet) NaN.
inline uint16_t f32_to_bf16(float value) {
    const uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fc0u;
    }
    const uint32_t round_bias = 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<uint16_t>((bits + round_bias) >> 16);
}

inline float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        // Zero or subnormal: fraction * 2^-24 is exact in binary32.
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return f32_from_bits(sign | f32_bits(magnitude));
    }
    if (exponent == 0x1fu) {
        return f32_from_bits(sign | 0x7f800000u | (fraction << 13));
    }
    return f32_from_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

// Round to nearest, ties to even; beyond 65504 + half a unit to infinity; subnormals are kept.
inline uint16_t f32_to_f16(float value) {
    const uint32_t bits = f32_bits(value);
    const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u);
    }
    if (magnitude >= 0x47800000u) {  // 2^16 and above
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {  // below 2^-14: the result is subnormal
        // 0.5 has an ulp of 2^-24, the step of binary16 subnormals: the addition does the rounding.
        const float shifted = f32_from_bits(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (f32_bits(shifted) - 0x3f000000u));
    }
    const uint32_t round_bias = 0xfffu + ((magnitude >> 13) & 1u);
    const uint32_t rebiased = magnitude - (112u << 23) + round_bias;
    return static_cast<uint16_t>(sign | (rebiased >> 13));
}

// The value after a trip through the narrow format.
inline float round_to_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }
inline float round_to_f16(float value) { return f16_to_f32(f32_to_f16(value)); }

// Nearest integer, ties to even, saturated to [low, high]; NaN becomes 0.
inline int64_t round_saturate(float value, int64_t low, int64_t high) {
    if (value != value) {
        return 0;
    }
    if (value <= static_cast<float>(low)) {
        return low;
    }
    if (value >= static_cast<float>(high)) {
        return high;
    }
    return static_cast<int64_t>(__builtin_rintf(value));
}

inline int8_t f32_to_i8(float value) { return static_cast<int8_t>(round_saturate(value, -128, 127)); }
