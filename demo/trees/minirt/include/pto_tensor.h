// Tensors as an orchestration sees them: strided regions of buffers, and requests for new buffers.
#pragma once

#include <stdint.h>

#include "pto_data_type.h"

extern "C" {
// Ends the orchestration: the run fails with code -5 and `message` is logged.
[[noreturn]] void minirt_orchestration_error(const char* message);
}

struct PTO2TaskId {
    uint64_t raw;  // (ring << 32) | number within the ring

    static constexpr PTO2TaskId invalid() { return PTO2TaskId{UINT64_MAX}; }
    constexpr bool is_valid() const { return raw != UINT64_MAX; }
    constexpr uint32_t ring() const { return static_cast<uint32_t>(raw >> 32); }
    constexpr uint32_t local() const { return static_cast<uint32_t>(raw); }
};

struct ChipTensor {
    uint64_t buffer_addr = 0;
    uint64_t buffer_bytes = 0;
    PTO2TaskId owner = PTO2TaskId::invalid();  // the task that allocated the buffer; external buffers have none
    uint64_t start_offset = 0;                 // elements
    int32_t version = 0;
    uint32_t ndims = 0;
    DataType dtype = DataType::FLOAT32;
    uint32_t shapes[MAX_TENSOR_DIMS] = {};
    uint32_t strides[MAX_TENSOR_DIMS] = {};  // elements, always > 0

    uint64_t numel() const {
        uint64_t count = 1;
        for (uint32_t i = 0; i < ndims; ++i) {
            count *= shapes[i];
        }
        return count;
    }

    bool is_contiguous() const {
        uint64_t expected = 1;
        for (uint32_t i = ndims; i-- > 0;) {
            if (strides[i] != expected) {
                return false;
            }
            expected *= shapes[i];
        }
        return true;
    }

    // The region of `view_shapes` elements that starts at `view_offsets`, with the same strides.
    ChipTensor view(const uint32_t view_shapes[], const uint32_t view_offsets[]) const {
        ChipTensor result = *this;
        for (uint32_t i = 0; i < ndims; ++i) {
            if (static_cast<uint64_t>(view_offsets[i]) + view_shapes[i] > shapes[i]) {
                minirt_orchestration_error("view: the region reaches outside its tensor");
            }
            result.start_offset += static_cast<uint64_t>(view_offsets[i]) * strides[i];
            result.shapes[i] = view_shapes[i];
        }
        return result;
    }

    ChipTensor transpose(uint32_t x, uint32_t y) const {
        if (x >= ndims || y >= ndims) {
            minirt_orchestration_error("transpose: the tensor has no such dimension");
        }
        ChipTensor result = *this;
        result.shapes[x] = shapes[y];
        result.shapes[y] = shapes[x];
        result.strides[x] = strides[y];
        result.strides[y] = strides[x];
        return result;
    }

    // Same buffer, same elements, in the same order.
    bool same_region(const ChipTensor& other) const {
        if (buffer_addr != other.buffer_addr || start_offset != other.start_offset || ndims != other.ndims) {
            return false;
        }
        for (uint32_t i = 0; i < ndims; ++i) {
            if (shapes[i] != other.shapes[i] || strides[i] != other.strides[i]) {
                return false;
            }
        }
        return dtype == other.dtype;
    }
};

// A buffer that the runtime shall allocate; its bytes are zero at first.
struct TensorCreateInfo {
    uint32_t ndims = 0;
    DataType dtype = DataType::FLOAT32;
    uint32_t shapes[MAX_TENSOR_DIMS] = {};

    TensorCreateInfo() = default;
    TensorCreateInfo(const uint32_t in_shapes[], uint32_t in_ndims, DataType in_dtype = DataType::FLOAT32)
        : ndims(in_ndims), dtype(in_dtype) {
        if (ndims > MAX_TENSOR_DIMS) {
            minirt_orchestration_error("TensorCreateInfo: more than 5 dimensions");
        }
        for (uint32_t i = 0; i < ndims; ++i) {
            shapes[i] = in_shapes[i];
        }
    }
};

using Tensor = ChipTensor;  // spelling of older sources
