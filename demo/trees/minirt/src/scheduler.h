// Runs a task graph on a pool of worker threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "task_graph.h"

enum class ReadyOrder {
    kRandom,
    kSerial,   // the ready task that was submitted first
    kReverse,  // the ready task that was submitted last
};

struct SchedulerOptions {
    uint32_t workers = 4;
    ReadyOrder order = ReadyOrder::kRandom;
    uint64_t seed = 0;
    std::chrono::milliseconds timeout{3000};  // without any progress

    // From MINIRT_THREADS, MINIRT_ORDER and SIMPLER_SCHEDULER_TIMEOUT_MS. A fixed order implies one worker:
    // with more, the order of execution would depend on timing. Throws std::invalid_argument.
    static SchedulerOptions from_environment();
};

class Scheduler {
public:
    using RunTask = std::function<void(const Task&)>;

    // `run_task` must own whatever it touches: a worker stuck in a kernel may outlive run().
    Scheduler(std::shared_ptr<const TaskGraph> graph, SchedulerOptions options, RunTask run_task);

    // True when every task has completed; false when none made progress for the timeout. Then the state is logged
    // and workers that do not return are left behind: they are joined when the process exits.
    bool run();

private:
    struct State;
    std::shared_ptr<State> state_;
};
