#include "dependencies.h"

#include <algorithm>

namespace {

// Returns false if the task already waits for `predecessor`.
bool add_predecessor(Task& task, PTO2TaskId predecessor) {
    const auto known = std::find_if(
        task.predecessors.begin(), task.predecessors.end(), [&](PTO2TaskId id) { return id.raw == predecessor.raw; }
    );
    if (known != task.predecessors.end()) {
        return false;
    }
    task.predecessors.push_back(predecessor);
    return true;
}

}  // namespace

void DependencyTracker::submit(
    Task& task, const PTO2TaskId* explicit_dependencies, uint32_t count, std::vector<Edge>& edges
) {
    for (uint32_t i = 0; i < count; ++i) {
        const PTO2TaskId predecessor = explicit_dependencies[i];
        if (add_predecessor(task, predecessor)) {
            edges.push_back({predecessor, task.id, -1, EdgeSource::kExplicit, Overlap::kNone, {}, {}});
        }
    }
    if (task.manual_scope) {
        return;
    }
    for (size_t i = 0; i < task.tensors.size(); ++i) {
        const TensorArgType type = task.tensors[i].type;
        if (type == TensorArgType::OUTPUT) {
            continue;
        }
        wait_for_creator(task, static_cast<int32_t>(i), edges);
        if (type == TensorArgType::INPUT || type == TensorArgType::INOUT) {
            wait_for_writers(task, static_cast<int32_t>(i), edges);
        }
    }
    remember_writes(task);
}

void DependencyTracker::wait_for_creator(Task& task, int32_t argument, std::vector<Edge>& edges) {
    const ChipTensor& tensor = task.tensors[static_cast<size_t>(argument)].tensor;
    if (tensor.owner.is_valid() && add_predecessor(task, tensor.owner)) {
        edges.push_back({tensor.owner, task.id, argument, EdgeSource::kCreator, Overlap::kNone, tensor, {}});
    }
}

void DependencyTracker::wait_for_writers(Task& task, int32_t argument, std::vector<Edge>& edges) {
    const TaskTensor& reader = task.tensors[static_cast<size_t>(argument)];
    const auto found = writers_.find(reader.tensor.buffer_addr);
    if (found == writers_.end()) {
        return;
    }
    std::vector<Writer>& writers = found->second;
    for (const Writer& writer : writers) {
        const Overlap overlap = region_overlap(reader.tensor, writer.region);
        if (overlap != Overlap::kNone) {
            add_predecessor(task, writer.task);
            edges.push_back({writer.task, task.id, argument, EdgeSource::kTensorMap, overlap, reader.tensor, writer.region});
        }
    }
    if (reader.type == TensorArgType::INOUT) {
        const auto covered = [&](const Writer& writer) {
            return region_overlap(reader.tensor, writer.region) == Overlap::kCovered;
        };
        writers.erase(std::remove_if(writers.begin(), writers.end(), covered), writers.end());
    }
}

void DependencyTracker::remember_writes(const Task& task) {
    for (const TaskTensor& argument : task.tensors) {
        if (argument.type == TensorArgType::INOUT || argument.type == TensorArgType::OUTPUT_EXISTING) {
            writers_[argument.tensor.buffer_addr].push_back({task.id, argument.tensor});
        }
    }
}
