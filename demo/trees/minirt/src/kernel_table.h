// The kernels of a build, by func_id, and how one task is run on them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "pto_kernel_api.h"
#include "shared_object.h"
#include "task_graph.h"

class KernelTable {
public:
    // Throws LoadError when the file cannot be loaded or has no kernel_entry.
    void load(int32_t func_id, const std::string& path);

    bool contains(int32_t func_id) const { return kernels_.count(func_id) != 0; }

    // Calls each of the task's kernels once a block, one after the other.
    void run(const Task& task) const;

private:
    struct Kernel {
        SharedObject object;
        decltype(&kernel_entry) entry;
    };
    std::map<int32_t, Kernel> kernels_;
};
