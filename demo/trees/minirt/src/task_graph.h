// The tasks of one run, in submission order, and why each waits for others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "overlap.h"
#include "pto_orchestration_api.h"

struct TaskTensor {
    TensorArgType type;
    ChipTensor tensor;
    bool dump;
};

struct TaskScalar {
    uint64_t bits;
    DataType dtype;
    bool dump;
};

struct Task {
    PTO2TaskId id = PTO2TaskId::invalid();
    bool manual_scope = false;
    MixedKernels kernels;
    int32_t block_num = 1;
    std::vector<TaskTensor> tensors;
    std::vector<TaskScalar> scalars;
    std::vector<PTO2TaskId> predecessors;  // without duplicates

    // A task without kernels stands for an allocation: complete as soon as it is submitted.
    bool is_allocation() const { return func_ids().empty(); }
    // The kernels that run, in their order of execution.
    std::vector<int32_t> func_ids() const;
};

enum class EdgeSource { kExplicit, kCreator, kTensorMap };

struct Edge {
    PTO2TaskId predecessor;
    PTO2TaskId successor;
    int32_t argument;  // index of the successor's tensor argument; -1 for kExplicit
    EdgeSource source;
    Overlap overlap;      // kTensorMap only
    ChipTensor consumer;  // unused for kExplicit
    ChipTensor producer;  // kTensorMap only
};

struct BufferDeleter {
    void operator()(uint8_t* bytes) const;
};
using Buffer = std::unique_ptr<uint8_t, BufferDeleter>;

struct TaskGraph {
    std::vector<Task> tasks;
    std::vector<Edge> edges;
    std::vector<Buffer> buffers;  // allocated for this run, freed with it
};
