// Runs an orchestration source's entry function and records the tasks that it submits.
#pragma once

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "dependencies.h"
#include "kernel_table.h"
#include "shared_object.h"
#include "task_graph.h"

// The orchestration asked for something impossible.
struct OrchestrationError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct OrchestrationArguments {
    std::vector<ChipTensor> tensors;
    std::vector<uint64_t> scalars;
};

// Throws LoadError when the entry points are missing, OrchestrationError when the argument count is not the
// expected one or the orchestration gives up.
TaskGraph orchestrate(
    const SharedObject& source, const std::string& function_name, const OrchestrationArguments& arguments,
    const KernelTable& kernels
);
