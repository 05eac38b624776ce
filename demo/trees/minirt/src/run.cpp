// One run: load, orchestrate, schedule, export.
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>

#include "args_dump.h"
#include "deps_json.h"
#include "log.h"
#include "minirt_c_api.h"
#include "orchestrator.h"
#include "scheduler.h"

namespace {

// What the workers touch. They share it, because a stuck one outlives the run.
struct RunContext {
    KernelTable kernels;
    std::shared_ptr<TaskGraph> graph = std::make_shared<TaskGraph>();
    std::unique_ptr<ArgsDump> dump;

    void run_task(const Task& task) const {
        if (dump != nullptr) {
            dump->record(task, DumpStage::kBeforeDispatch);
        }
        kernels.run(task);
        if (dump != nullptr) {
            dump->record(task, DumpStage::kAfterCompletion);
        }
    }
};

class Span {
public:
    explicit Span(const char* name) : name_(name) {}
    ~Span() {
        const auto duration = std::chrono::steady_clock::now() - start_;
        const long long nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
        log_line(LogLevel::kTiming, name_, "[STRACE] v=1 depth=1 name=chip.run.%s dur=%lld", name_, nanoseconds);
    }

private:
    const char* name_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

ChipTensor external_tensor(const MinirtTensor& given) {
    ChipTensor tensor;
    tensor.buffer_addr = given.address;
    tensor.ndims = given.ndims;
    tensor.dtype = static_cast<DataType>(given.dtype);
    uint32_t stride = 1;
    for (uint32_t i = given.ndims; i-- > 0;) {
        tensor.shapes[i] = given.shape[i];
        tensor.strides[i] = stride;
        stride *= given.shape[i] > 0 ? given.shape[i] : 1;
    }
    tensor.buffer_bytes = tensor.numel() * element_size(tensor.dtype);
    return tensor;
}

uint64_t arena_bytes() {
    const char* text = std::getenv("MINIRT_DUMP_ARENA_BYTES");
    return text == nullptr ? ArgsDump::kArenaBytes : std::strtoull(text, nullptr, 10);
}

TaskGraph load_graph(const MinirtRequest& request, const KernelTable& kernels) {
    const Span span("orch");
    OrchestrationArguments arguments;
    for (uint32_t i = 0; i < request.tensor_count; ++i) {
        arguments.tensors.push_back(external_tensor(request.tensors[i]));
    }
    arguments.scalars.assign(request.scalars, request.scalars + request.scalar_count);
    const SharedObject source(request.orchestration_path);
    return orchestrate(source, request.function_name, arguments, kernels);
}

int32_t run(const MinirtRequest& request) {
    const SchedulerOptions options = SchedulerOptions::from_environment();
    const auto context = std::make_shared<RunContext>();
    try {
        const Span span("bind");
        for (uint32_t i = 0; i < request.kernel_count; ++i) {
            context->kernels.load(request.kernels[i].func_id, request.kernels[i].path);
        }
    } catch (const LoadError& error) {
        LOG_ERROR("kernel load failed: %s", error.what());
        return kRunKernelLoadFailed;
    }
    try {
        *context->graph = load_graph(request, context->kernels);
    } catch (const std::exception& error) {
        LOG_ERROR("orchestration failed: %s", error.what());
        return kRunOrchestrationFailed;
    }
    if (request.dump_level > 0) {
        context->dump = std::make_unique<ArgsDump>(
            static_cast<DumpLevel>(request.dump_level), request.dump_directory, arena_bytes()
        );
    }

    LOG_INFO("%zu tasks on %u cores, timeout %lld ms", context->graph->tasks.size(), options.workers,
             static_cast<long long>(options.timeout.count()));
    Scheduler scheduler(context->graph, options, [context](const Task& task) { context->run_task(task); });
    const bool completed = [&] {
        const Span span("sched");
        return scheduler.run();
    }();

    // A stall leaves its files too: the inputs of every dispatched task, the outputs of the finished ones.
    const bool dump_written = context->dump == nullptr || context->dump->finish();
    const bool deps_written = request.deps_path == nullptr || write_deps_json(*context->graph, request.deps_path);
    if (!completed) {
        return kRunStalled;
    }
    if (!dump_written || !deps_written) {
        LOG_ERROR("could not write %s", !dump_written ? request.dump_directory : request.deps_path);
        return kRunExportFailed;
    }
    return kRunOk;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int32_t minirt_run(const MinirtRequest* request) {
    int32_t code = kRunInvalidRequest;
    try {
        code = run(*request);
    } catch (const std::exception& error) {
        LOG_ERROR("%s", error.what());
    }
    if (code != kRunOk) {
        LOG_ERROR("PTO2 runtime failed with rc=%d", code);
    }
    return code;
}
