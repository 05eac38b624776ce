// What an orchestration source includes. It is compiled to a shared object whose calls are resolved
// against libminirt when it is loaded:
//
//     #include "pto_orchestration_api.h"
//
//     PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
//         return PTO2OrchestrationConfig{.expected_arg_count = 2};
//     }
//     void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
//         const ChipTensor& ext_x = orch_args.tensor(0).ref();
//         const ChipTensor& ext_y = orch_args.tensor(1).ref();
//         PTO2_SCOPE() {
//             CoreTaskArgs params_t0;
//             params_t0.add_input(ext_x);
//             params_t0.add_output(ext_y);
//             rt_submit_aiv_task(0, params_t0);
//         }
//     }
#pragma once

#include <stdint.h>

#include "pto_task_args.h"

constexpr int32_t INVALID_KERNEL_ID = -1;

// Kernels that make up one task, by func_id.
struct MixedKernels {
    int32_t aic_kernel_id = INVALID_KERNEL_ID;
    int32_t aiv0_kernel_id = INVALID_KERNEL_ID;
    int32_t aiv1_kernel_id = INVALID_KERNEL_ID;
};

enum class PTO2ScopeMode : uint8_t {
    AUTO = 0,    // dependencies are inferred from the tensors
    MANUAL = 1,  // only set_dependencies counts
};

// The arguments of the whole run: external tensors in signature order, and scalars as 64-bit slots.
class ChipTaskArgs {
public:
    class TensorRef {
    public:
        explicit TensorRef(const ChipTensor& tensor) : tensor_(tensor) {}
        const ChipTensor& ref() const { return tensor_; }

    private:
        const ChipTensor& tensor_;
    };

    ChipTaskArgs(const ChipTensor* tensors, uint32_t tensor_count, const uint64_t* scalars, uint32_t scalar_count)
        : tensors_(tensors), tensor_count_(tensor_count), scalars_(scalars), scalar_count_(scalar_count) {}

    uint32_t tensor_count() const { return tensor_count_; }
    uint32_t scalar_count() const { return scalar_count_; }

    TensorRef tensor(uint32_t index) const {
        if (index >= tensor_count_) {
            minirt_orchestration_error("orch_args.tensor: fewer tensors were given");
        }
        return TensorRef(tensors_[index]);
    }
    uint64_t scalar(uint32_t index) const {
        if (index >= scalar_count_) {
            minirt_orchestration_error("orch_args.scalar: fewer scalars were given");
        }
        return scalars_[index];
    }

private:
    const ChipTensor* tensors_;
    uint32_t tensor_count_;
    const uint64_t* scalars_;
    uint32_t scalar_count_;
};

using L2TaskArgs = ChipTaskArgs;  // spelling of older sources

struct PTO2OrchestrationConfig {
    int expected_arg_count;  // tensors and scalars together
};

extern "C" {
// Defined by the orchestration source; these declarations give them C linkage.
PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args);
void aicpu_orchestration_entry(const ChipTaskArgs& orch_args);

// Defined by libminirt.
void minirt_submit_task(const MixedKernels& kernels, const CoreTaskArgs& args, TaskOutputTensors& outputs);
void minirt_alloc_tensors(const CoreTaskArgs& args, TaskOutputTensors& outputs);
void minirt_scope_begin(PTO2ScopeMode mode);
void minirt_scope_end();
}

inline TaskOutputTensors rt_submit_task(const MixedKernels& kernels, const CoreTaskArgs& args) {
    TaskOutputTensors outputs;
    minirt_submit_task(kernels, args, outputs);
    return outputs;
}

inline TaskOutputTensors rt_submit_aic_task(int32_t func_id, const CoreTaskArgs& args) {
    return rt_submit_task(MixedKernels{func_id, INVALID_KERNEL_ID, INVALID_KERNEL_ID}, args);
}

inline TaskOutputTensors rt_submit_aiv_task(int32_t func_id, const CoreTaskArgs& args) {
    return rt_submit_task(MixedKernels{INVALID_KERNEL_ID, func_id, INVALID_KERNEL_ID}, args);
}

template <typename... CreateInfos>
inline TaskOutputTensors alloc_tensors(const CreateInfos&... create_infos) {
    CoreTaskArgs args;
    args.add_output(create_infos...);
    TaskOutputTensors outputs;
    minirt_alloc_tensors(args, outputs);
    return outputs;
}

class PTO2ScopeGuard {
public:
    explicit PTO2ScopeGuard(PTO2ScopeMode mode = PTO2ScopeMode::AUTO) { minirt_scope_begin(mode); }
    ~PTO2ScopeGuard() { minirt_scope_end(); }
    PTO2ScopeGuard(const PTO2ScopeGuard&) = delete;
    PTO2ScopeGuard& operator=(const PTO2ScopeGuard&) = delete;
};

// PTO2_SCOPE() { ... } or PTO2_SCOPE(PTO2ScopeMode::MANUAL) { ... }
#define PTO2_SCOPE(...) if (PTO2ScopeGuard pto2_scope_guard{__VA_ARGS__}; true)
