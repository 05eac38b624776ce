#include "orchestrator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "log.h"

namespace {

constexpr uint32_t kMaxRing = 3;
constexpr size_t kBufferAlignment = 64;

class Orchestrator {
public:
    explicit Orchestrator(const KernelTable& kernels) : kernels_(kernels) {}

    void submit(const MixedKernels& kernels, const CoreTaskArgs& args, TaskOutputTensors& outputs) {
        Task task = new_task(args, outputs);
        task.kernels = kernels;
        for (const int32_t func_id : task.func_ids()) {
            if (!kernels_.contains(func_id)) {
                throw OrchestrationError("submit: no kernel has func_id " + std::to_string(func_id));
            }
        }
        if (task.is_allocation() || task.block_num < 1) {
            throw OrchestrationError("submit: a task needs a kernel and at least one block");
        }
        tracker_.submit(task, args.dependencies(), args.dependency_count(), graph_.edges);
        graph_.tasks.push_back(std::move(task));
    }

    void alloc(const CoreTaskArgs& args, TaskOutputTensors& outputs) {
        graph_.tasks.push_back(new_task(args, outputs));
    }

    void scope_begin(PTO2ScopeMode mode) { scopes_.push_back(mode); }
    void scope_end() { scopes_.pop_back(); }

    TaskGraph take_graph() { return std::move(graph_); }

private:
    Task new_task(const CoreTaskArgs& args, TaskOutputTensors& outputs) {
        Task task;
        // The entry function is scope 0; each nested scope has a ring of its own, down to the last ring.
        const uint32_t ring = std::min(static_cast<uint32_t>(scopes_.size()), kMaxRing);
        task.id = PTO2TaskId{(static_cast<uint64_t>(ring) << 32) | next_local_id_[ring]++};
        task.manual_scope = !scopes_.empty() && scopes_.back() == PTO2ScopeMode::MANUAL;
        task.block_num = args.launch_spec.block_num();
        outputs.set_task_id(task.id);
        for (uint32_t i = 0; i < args.tensor_count(); ++i) {
            const CoreTaskArgs::TensorSlot& slot = args.tensor_slot(i);
            ChipTensor tensor = slot.tensor;
            if (slot.type == TensorArgType::OUTPUT) {
                tensor = allocate(slot.create_info, task.id);
                outputs.append(tensor);
            }
            task.tensors.push_back({slot.type, tensor, slot.dump || args.dump_all()});
        }
        for (uint32_t i = 0; i < args.scalar_count(); ++i) {
            const CoreTaskArgs::ScalarSlot& slot = args.scalar_slot(i);
            task.scalars.push_back({slot.bits, slot.dtype, slot.dump || args.dump_all()});
        }
        return task;
    }

    ChipTensor allocate(const TensorCreateInfo& create_info, PTO2TaskId owner) {
        ChipTensor tensor;
        tensor.owner = owner;
        tensor.ndims = create_info.ndims;
        tensor.dtype = create_info.dtype;
        uint32_t stride = 1;
        for (uint32_t i = create_info.ndims; i-- > 0;) {
            tensor.shapes[i] = create_info.shapes[i];
            tensor.strides[i] = stride;
            stride *= std::max(create_info.shapes[i], 1u);
        }
        tensor.buffer_bytes = tensor.numel() * element_size(tensor.dtype);
        const size_t padded = (tensor.buffer_bytes / kBufferAlignment + 1) * kBufferAlignment;
        // Device memory holds no bookkeeping of the host's allocator: what a kernel writes just before its tensor
        // lands in a margin, as it would land in a neighbour there.
        const size_t allocated = kBufferAlignment + padded;
        Buffer buffer(static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, allocated)));
        if (buffer == nullptr) {
            throw OrchestrationError("out of memory: a tensor of " + std::to_string(tensor.buffer_bytes) + " bytes");
        }
        std::memset(buffer.get(), 0, allocated);
        tensor.buffer_addr = reinterpret_cast<uint64_t>(buffer.get() + kBufferAlignment);
        graph_.buffers.push_back(std::move(buffer));
        return tensor;
    }

    const KernelTable& kernels_;
    TaskGraph graph_;
    DependencyTracker tracker_;
    std::vector<PTO2ScopeMode> scopes_;
    uint32_t next_local_id_[kMaxRing + 1] = {};
};

// The orchestration's calls carry no context, so the running orchestrator is found here.
thread_local Orchestrator* current_orchestrator = nullptr;

class CurrentOrchestrator {
public:
    explicit CurrentOrchestrator(Orchestrator& orchestrator) { current_orchestrator = &orchestrator; }
    ~CurrentOrchestrator() { current_orchestrator = nullptr; }
};

}  // namespace

#define MINIRT_EXPORT __attribute__((visibility("default")))

extern "C" {

MINIRT_EXPORT void minirt_submit_task(
    const MixedKernels& kernels, const CoreTaskArgs& args, TaskOutputTensors& outputs
) {
    current_orchestrator->submit(kernels, args, outputs);
}

MINIRT_EXPORT void minirt_alloc_tensors(const CoreTaskArgs& args, TaskOutputTensors& outputs) {
    current_orchestrator->alloc(args, outputs);
}

MINIRT_EXPORT void minirt_scope_begin(PTO2ScopeMode mode) { current_orchestrator->scope_begin(mode); }

MINIRT_EXPORT void minirt_scope_end() { current_orchestrator->scope_end(); }

MINIRT_EXPORT void minirt_orchestration_error(const char* message) { throw OrchestrationError(message); }

}  // extern "C"

TaskGraph orchestrate(
    const SharedObject& source, const std::string& function_name, const OrchestrationArguments& arguments,
    const KernelTable& kernels
) {
    const auto config = source.function<PTO2OrchestrationConfig(const ChipTaskArgs&)>("aicpu_orchestration_config");
    const auto entry = source.function<void(const ChipTaskArgs&)>(function_name.c_str());

    const ChipTaskArgs args(
        arguments.tensors.data(), static_cast<uint32_t>(arguments.tensors.size()), arguments.scalars.data(),
        static_cast<uint32_t>(arguments.scalars.size())
    );
    const int given = static_cast<int>(arguments.tensors.size() + arguments.scalars.size());
    const int expected = config(args).expected_arg_count;
    if (given != expected) {
        throw OrchestrationError(
            "expected_arg_count is " + std::to_string(expected) + ", but " + std::to_string(given) + " arguments were given"
        );
    }
    Orchestrator orchestrator(kernels);
    const CurrentOrchestrator current(orchestrator);
    entry(args);
    return orchestrator.take_graph();
}
