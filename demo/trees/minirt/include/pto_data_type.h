// Element types, shared by kernels, orchestration sources and the runtime.
#pragma once

#include <stdint.h>
#include <string.h>

constexpr uint32_t MAX_TENSOR_DIMS = 5;

// The values are part of the kernel ABI (KernelTensor::dtype): append, never renumber.
enum class DataType : uint8_t {
    FLOAT32 = 0,
    FLOAT16 = 1,
    INT32 = 2,
    INT16 = 3,
    INT8 = 4,
    UINT8 = 5,
    BFLOAT16 = 6,
    INT64 = 7,
    UINT64 = 8,
    UINT16 = 9,
    UINT32 = 10,
    BOOL = 11,
};

// Size of one element in bytes.
constexpr uint32_t element_size(DataType dtype) {
    switch (dtype) {
        case DataType::INT8:
        case DataType::UINT8:
        case DataType::BOOL:
            return 1;
        case DataType::FLOAT16:
        case DataType::BFLOAT16:
        case DataType::INT16:
        case DataType::UINT16:
            return 2;
        case DataType::FLOAT32:
        case DataType::INT32:
        case DataType::UINT32:
            return 4;
        case DataType::INT64:
        case DataType::UINT64:
            return 8;
    }
    return 0;
}

// A scalar's bits, zero-extended to the 64-bit slot in which it travels to a kernel.
template <typename T>
inline uint64_t to_u64(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "to_u64: a scalar has at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T>
inline T from_u64(uint64_t bits) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "from_u64: a scalar has at most 8 bytes");
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}
