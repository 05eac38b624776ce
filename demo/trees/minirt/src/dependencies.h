// Which earlier tasks a submitted task must wait for.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "task_graph.h"

// Remembers the writers of every buffer region, in submission order.
//
// INPUT and INOUT wait for the earlier writers of an overlapping region, and for the task that allocated the
// buffer. OUTPUT_EXISTING declares a write and looks nothing up but the allocation. An INOUT that covers a writer's
// region takes its place: later tasks reach the older one through it. Nobody waits for earlier *readers*.
// In a manual scope nothing is inferred and no writer is remembered.
class DependencyTracker {
public:
    // Fills task.predecessors, appends the edges, and remembers the task's writes.
    void submit(Task& task, const PTO2TaskId* explicit_dependencies, uint32_t count, std::vector<Edge>& edges);

private:
    struct Writer {
        PTO2TaskId task;
        ChipTensor region;
    };

    void wait_for_creator(Task& task, int32_t argument, std::vector<Edge>& edges);
    void wait_for_writers(Task& task, int32_t argument, std::vector<Edge>& edges);
    void remember_writes(const Task& task);

    std::unordered_map<uint64_t, std::vector<Writer>> writers_;  // by buffer address
};
