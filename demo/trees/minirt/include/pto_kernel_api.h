// Kernel ABI: what a kernel source includes, and nothing else of the runtime.
//
//     #include "pto_kernel_api.h"
//
//     extern "C" void kernel_entry(const KernelArgs& args) {
//         const KernelTensor& x = args.tensors[0];
//         const KernelTensor& y = args.tensors[1];
//         for (uint32_t row = 0; row < x.shape[0]; ++row)
//             for (uint32_t column = 0; column < x.shape[1]; ++column)
//                 store_f32(y, element_offset(y, row, column), 2.0f * load_f32(x, element_offset(x, row, column)));
//     }
#pragma once

#include <stdint.h>

#include "pto_data_type.h"
#include "pto_numeric.h"

// A strided region of a buffer. `data` is the buffer's first byte; offset and strides count elements.
struct KernelTensor {
    void* data;
    int32_t dtype;
    uint32_t ndim;
    uint32_t shape[MAX_TENSOR_DIMS];
    uint32_t strides[MAX_TENSOR_DIMS];
    uint64_t start_offset;
};

// One call: the tensors in the order of the task's arguments, then its scalars as 64-bit slots.
struct KernelArgs {
    const KernelTensor* tensors;
    uint32_t tensor_count;
    const uint64_t* scalars;
    uint32_t scalar_count;
    int32_t block_idx;
    int32_t block_num;
};

extern "C" void kernel_entry(const KernelArgs& args);

inline uint64_t element_offset(const KernelTensor& tensor, uint64_t i) {
    return tensor.start_offset + i * tensor.strides[0];
}
inline uint64_t element_offset(const KernelTensor& tensor, uint64_t i, uint64_t j) {
    return element_offset(tensor, i) + j * tensor.strides[1];
}
inline uint64_t element_offset(const KernelTensor& tensor, uint64_t i, uint64_t j, uint64_t k) {
    return element_offset(tensor, i, j) + k * tensor.strides[2];
}

template <typename T>
inline T* elements(const KernelTensor& tensor) {
    return static_cast<T*>(tensor.data);
}

template <typename T>
inline T scalar(const KernelArgs& args, uint32_t index) {
    return from_u64<T>(args.scalars[index]);
}

// One element as binary32. `offset` counts elements from the buffer's start (element_offset above).
inline float load_f32(const KernelTensor& tensor, uint64_t offset) {
    switch (static_cast<DataType>(tensor.dtype)) {
        case DataType::FLOAT32: return elements<float>(tensor)[offset];
        case DataType::FLOAT16: return f16_to_f32(elements<uint16_t>(tensor)[offset]);
        case DataType::BFLOAT16: return bf16_to_f32(elements<uint16_t>(tensor)[offset]);
        case DataType::INT32: return static_cast<float>(elements<int32_t>(tensor)[offset]);
        case DataType::INT16: return static_cast<float>(elements<int16_t>(tensor)[offset]);
        case DataType::INT8: return static_cast<float>(elements<int8_t>(tensor)[offset]);
        case DataType::UINT8: return static_cast<float>(elements<uint8_t>(tensor)[offset]);
        case DataType::INT64: return static_cast<float>(elements<int64_t>(tensor)[offset]);
        case DataType::UINT64: return static_cast<float>(elements<uint64_t>(tensor)[offset]);
        case DataType::UINT16: return static_cast<float>(elements<uint16_t>(tensor)[offset]);
        case DataType::UINT32: return static_cast<float>(elements<uint32_t>(tensor)[offset]);
        case DataType::BOOL: return elements<uint8_t>(tensor)[offset] != 0 ? 1.0f : 0.0f;
    }
    return 0.0f;
}

// Store binary32 as the tensor's type: floats round to nearest even, integers too and saturate.
// The 64-bit integer types are not offered: binary32 cannot hold them.
inline void store_f32(const KernelTensor& tensor, uint64_t offset, float value) {
    switch (static_cast<DataType>(tensor.dtype)) {
        case DataType::FLOAT32: elements<float>(tensor)[offset] = value; break;
        case DataType::FLOAT16: elements<uint16_t>(tensor)[offset] = f32_to_f16(value); break;
        case DataType::BFLOAT16: elements<uint16_t>(tensor)[offset] = f32_to_bf16(value); break;
        case DataType::INT32:
            elements<int32_t>(tensor)[offset] = static_cast<int32_t>(round_saturate(value, -2147483648LL, 2147483647LL));
            break;
        case DataType::UINT32:
            elements<uint32_t>(tensor)[offset] = static_cast<uint32_t>(round_saturate(value, 0, 4294967295LL));
            break;
        case DataType::INT16:
            elements<int16_t>(tensor)[offset] = static_cast<int16_t>(round_saturate(value, -32768, 32767));
            break;
        case DataType::UINT16:
            elements<uint16_t>(tensor)[offset] = static_cast<uint16_t>(round_saturate(value, 0, 65535));
            break;
        case DataType::INT8: elements<int8_t>(tensor)[offset] = f32_to_i8(value); break;
        case DataType::UINT8:
            elements<uint8_t>(tensor)[offset] = static_cast<uint8_t>(round_saturate(value, 0, 255));
            break;
        case DataType::BOOL: elements<uint8_t>(tensor)[offset] = value != 0.0f ? 1 : 0; break;
        case DataType::INT64:
        case DataType::UINT64: break;
    }
}

// Copy rows x columns of a 2-D tensor, from (row, column) on, into a row-major tile of `pitch` elements a row.
inline void load_tile(
    const KernelTensor& source, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns, float* tile, uint32_t pitch
) {
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t c = 0; c < columns; ++c) {
            tile[static_cast<uint64_t>(r) * pitch + c] = load_f32(source, element_offset(source, row + r, column + c));
        }
    }
}

inline void store_tile(
    const KernelTensor& target, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns, const float* tile,
    uint32_t pitch
) {
    for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t c = 0; c < columns; ++c) {
            store_f32(target, element_offset(target, row + r, column + c), tile[static_cast<uint64_t>(r) * pitch + c]);
        }
    }
}

// The C library's functions, declared here because <math.h> in C++ costs a tenth of a second a kernel.
inline float exp_f32(float value) { return __builtin_expf(value); }
inline float log_f32(float value) { return __builtin_logf(value); }
inline float tanh_f32(float value) { return __builtin_tanhf(value); }
inline float sqrt_f32(float value) { return __builtin_sqrtf(value); }
inline float abs_f32(float value) { return __builtin_fabsf(value); }
