// The interface between the Python package (ctypes) and the runtime. Keep minirt/library.py in step.
#pragma once

#include <stdint.h>

#include "pto_data_type.h"

extern "C" {

struct MinirtKernel {
    int32_t func_id;
    const char* path;  // shared object with kernel_entry
};

// Contiguous, row-major.
struct MinirtTensor {
    uint64_t address;
    int32_t dtype;  // DataType
    uint32_t ndims;
    uint32_t shape[MAX_TENSOR_DIMS];
};

struct MinirtRequest {
    const char* orchestration_path;
    const char* function_name;
    const MinirtKernel* kernels;
    uint32_t kernel_count;
    const MinirtTensor* tensors;
    uint32_t tensor_count;
    const uint64_t* scalars;
    uint32_t scalar_count;
    int32_t dump_level;
    const char* dump_directory;  // exists when dump_level > 0
    const char* deps_path;       // null: no deps.json
};

// Zero, or one of the codes below. The reason is logged.
int32_t minirt_run(const MinirtRequest* request);
}

constexpr int32_t kRunOk = 0;
constexpr int32_t kRunInvalidRequest = -1;
constexpr int32_t kRunOrchestrationFailed = -5;
constexpr int32_t kRunKernelLoadFailed = -6;
constexpr int32_t kRunExportFailed = -7;
constexpr int32_t kRunStalled = -100;
