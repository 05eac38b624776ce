#include "scheduler.h"

#include <cinttypes>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "log.h"

namespace {

constexpr std::chrono::milliseconds kPollInterval{1};
constexpr std::chrono::milliseconds kShutdownGrace{200};

enum class TaskState { kWaiting, kReady, kRunning, kCompleted };

const char* state_name(TaskState state) {
    switch (state) {
        case TaskState::kWaiting: return "WAIT";
        case TaskState::kReady: return "READY";
        case TaskState::kRunning: return "RUNNING";
        case TaskState::kCompleted: return "COMPLETED";
    }
    return "?";
}

// As on the device, a kernel that never returns keeps its process from exiting.
class AbandonedWorkers {
public:
    void add(std::thread worker) {
        const std::lock_guard<std::mutex> lock(mutex_);
        workers_.push_back(std::move(worker));
    }
    ~AbandonedWorkers() {
        for (std::thread& worker : workers_) {
            worker.join();
        }
    }

private:
    std::mutex mutex_;
    std::vector<std::thread> workers_;
} abandoned_workers;

// splitmix64 (Steele, Lea, Flood 2014): a seed gives the same order with every C++ library.
uint64_t next_random(uint64_t& state) {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return mixed ^ (mixed >> 31);
}

uint64_t environment_number(const char* name, uint64_t fallback) {
    const char* text = std::getenv(name);
    if (text == nullptr) {
        return fallback;
    }
    char* end = nullptr;
    const uint64_t value = std::strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value == 0) {
        throw std::invalid_argument(std::string(name) + ": expected a positive integer, found '" + text + "'");
    }
    return value;
}

}  // namespace

SchedulerOptions SchedulerOptions::from_environment() {
    SchedulerOptions options;
    options.workers = static_cast<uint32_t>(environment_number("MINIRT_THREADS", options.workers));
    options.timeout = std::chrono::milliseconds(
        environment_number("SIMPLER_SCHEDULER_TIMEOUT_MS", static_cast<uint64_t>(options.timeout.count()))
    );
    options.seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    const char* text = std::getenv("MINIRT_ORDER");
    if (text == nullptr) {
        return options;
    }
    const std::string order = text;
    const std::string random_prefix = "random:";
    options.workers = 1;
    if (order == "serial") {
        options.order = ReadyOrder::kSerial;
    } else if (order == "reverse") {
        options.order = ReadyOrder::kReverse;
    } else if (
        order.rfind(random_prefix, 0) == 0 && order.size() > random_prefix.size() &&
        order.find_first_not_of("0123456789", random_prefix.size()) == std::string::npos
    ) {
        options.seed = std::strtoull(order.c_str() + random_prefix.size(), nullptr, 10);
    } else {
        throw std::invalid_argument("MINIRT_ORDER: expected serial, reverse or random:SEED, found '" + order + "'");
    }
    return options;
}

struct Scheduler::State {
    std::shared_ptr<const TaskGraph> graph;
    SchedulerOptions options;
    RunTask run_task;

    std::mutex mutex;
    std::condition_variable work_changed;   // for workers: a task became ready, or the run is over
    std::condition_variable idle_changed;   // for run(): a task or a worker finished
    std::vector<TaskState> states;
    std::vector<size_t> core_of;            // of running tasks
    std::vector<uint32_t> open_predecessors;
    std::vector<std::vector<size_t>> successors;
    std::vector<size_t> ready;
    size_t completed = 0;
    uint64_t progress = 0;  // dispatches and completions
    bool stopping = false;
    std::vector<bool> worker_done;

    void prepare();
    void complete(size_t index);
    size_t take_ready();
    void work(size_t worker);
    void log_stall(uint64_t idle_iterations) const;
};

void Scheduler::State::prepare() {
    const std::vector<Task>& tasks = graph->tasks;
    states.assign(tasks.size(), TaskState::kWaiting);
    core_of.assign(tasks.size(), 0);
    open_predecessors.assign(tasks.size(), 0);
    successors.resize(tasks.size());
    worker_done.assign(options.workers, false);
    std::unordered_map<uint64_t, size_t> index_of;
    for (size_t i = 0; i < tasks.size(); ++i) {
        index_of[tasks[i].id.raw] = i;
    }
    for (size_t i = 0; i < tasks.size(); ++i) {
        open_predecessors[i] = static_cast<uint32_t>(tasks[i].predecessors.size());
        for (const PTO2TaskId predecessor : tasks[i].predecessors) {
            // A dependency on a task that was never submitted stays open: the run will stall, as on the device.
            const auto found = index_of.find(predecessor.raw);
            if (found != index_of.end()) {
                successors[found->second].push_back(i);
            }
        }
    }
    for (size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].is_allocation()) {
            complete(i);
        } else if (tasks[i].predecessors.empty()) {
            states[i] = TaskState::kReady;
            ready.push_back(i);
        }
    }
}

void Scheduler::State::complete(size_t index) {
    states[index] = TaskState::kCompleted;
    ++completed;
    ++progress;
    for (const size_t successor : successors[index]) {
        if (--open_predecessors[successor] == 0) {
            states[successor] = TaskState::kReady;
            ready.push_back(successor);
        }
    }
}

size_t Scheduler::State::take_ready() {
    size_t chosen = 0;
    if (options.order == ReadyOrder::kRandom) {
        chosen = next_random(options.seed) % ready.size();
    } else {
        for (size_t i = 1; i < ready.size(); ++i) {
            const bool earlier = ready[i] < ready[chosen];
            if (earlier == (options.order == ReadyOrder::kSerial)) {
                chosen = i;
            }
        }
    }
    const size_t task = ready[chosen];
    ready[chosen] = ready.back();
    ready.pop_back();
    return task;
}

void Scheduler::State::work(size_t worker) {
    size_t executed = 0;
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
        work_changed.wait(lock, [&] { return stopping || !ready.empty(); });
        if (stopping) {
            break;
        }
        const size_t index = take_ready();
        states[index] = TaskState::kRunning;
        core_of[index] = worker;
        ++progress;
        lock.unlock();
        run_task(graph->tasks[index]);
        lock.lock();
        complete(index);
        ++executed;
        work_changed.notify_all();
        idle_changed.notify_all();
    }
    LOG_INFO("Thread %zu: executed %zu tasks", worker, executed);
    worker_done[worker] = true;
    idle_changed.notify_all();
}

void Scheduler::State::log_stall(uint64_t idle_iterations) const {
    size_t counts[4] = {};
    for (size_t i = 0; i < states.size(); ++i) {
        ++counts[static_cast<size_t>(states[i])];
        if (states[i] == TaskState::kCompleted) {
            continue;
        }
        const Task& task = graph->tasks[i];
        const size_t total = task.predecessors.size();
        std::string where;
        if (states[i] == TaskState::kRunning) {
            const char* slot = task.kernels.aic_kernel_id >= 0 ? "aic" : "aiv0";
            where = " running_on=[owner_thread=0 cores=[core=" + std::to_string(core_of[i]) + "(" + slot + ")]]";
        } else if (states[i] == TaskState::kWaiting) {
            where = " missing_deps=" + std::to_string(open_predecessors[i]);
        }
        LOG_INFO(
            "[STALL thread=0 idle_iterations=%" PRIu64 "] TASK ring=%u task_id=%u state=%s fanin_refcount=%zu/%zu "
            "kernels=[aic:%d aiv0:%d aiv1:%d]%s",
            idle_iterations, task.id.ring(), task.id.local(), state_name(states[i]), total - open_predecessors[i], total,
            task.kernels.aic_kernel_id, task.kernels.aiv0_kernel_id, task.kernels.aiv1_kernel_id, where.c_str()
        );
    }
    LOG_INFO(
        "[STALL thread=0 idle_iterations=%" PRIu64 "] SUMMARY completed=%zu/%zu scan_ready=%zu scan_waiting=%zu "
        "scan_running=%zu",
        idle_iterations, completed, states.size(), counts[static_cast<size_t>(TaskState::kReady)],
        counts[static_cast<size_t>(TaskState::kWaiting)], counts[static_cast<size_t>(TaskState::kRunning)]
    );
    LOG_WARN(
        "[SHUTDOWN_SNAPSHOT trigger_thread=0 reason=scheduler_timeout idle_iterations=%" PRIu64 "]", idle_iterations
    );
}

Scheduler::Scheduler(std::shared_ptr<const TaskGraph> graph, SchedulerOptions options, RunTask run_task)
    : state_(std::make_shared<State>()) {
    state_->graph = std::move(graph);
    state_->options = options;
    state_->run_task = std::move(run_task);
    state_->prepare();
}

bool Scheduler::run() {
    const std::shared_ptr<State> state = state_;
    std::vector<std::thread> workers;
    for (size_t i = 0; i < state->options.workers; ++i) {
        workers.emplace_back([state, i] { state->work(i); });
    }

    std::unique_lock<std::mutex> lock(state->mutex);
    uint64_t last_progress = state->progress;
    uint64_t idle_iterations = 0;
    auto deadline = std::chrono::steady_clock::now() + state->options.timeout;
    bool stalled = false;
    while (state->completed < state->graph->tasks.size() && !stalled) {
        state->idle_changed.wait_for(lock, kPollInterval);
        ++idle_iterations;
        if (state->progress != last_progress) {
            last_progress = state->progress;
            idle_iterations = 0;
            deadline = std::chrono::steady_clock::now() + state->options.timeout;
        }
        stalled = std::chrono::steady_clock::now() >= deadline && state->completed < state->graph->tasks.size();
    }
    if (stalled) {
        state->log_stall(idle_iterations);
    }
    state->stopping = true;
    state->work_changed.notify_all();
    const auto all_done = [&] {
        for (const bool done : state->worker_done) {
            if (!done) {
                return false;
            }
        }
        return true;
    };
    if (stalled) {
        state->idle_changed.wait_for(lock, kShutdownGrace, all_done);
    } else {
        state->idle_changed.wait(lock, all_done);
    }
    const std::vector<bool> done = state->worker_done;
    lock.unlock();

    size_t stuck = 0;
    for (size_t i = 0; i < workers.size(); ++i) {
        if (done[i]) {
            workers[i].join();
        } else {
            ++stuck;
            abandoned_workers.add(std::move(workers[i]));
        }
    }
    if (stalled) {
        LOG_ERROR("Thread 0: Scheduler failed with rc=-100");
    }
    if (stuck > 0) {
        LOG_ERROR("Emergency shutdown: %zu cores did not acknowledge exit", stuck);
    }
    return !stalled;
}
