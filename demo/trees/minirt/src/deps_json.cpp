#include "deps_json.h"

#include <fstream>
#include <unordered_set>

#include "dtype_name.h"

namespace {

// FNV-1a over address and version. Addresses differ from run to run, and so do these.
uint64_t tensor_id(const ChipTensor& tensor) {
    uint64_t hash = 0xcbf29ce484222325ull;
    const auto mix = [&hash](uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) {
            hash = (hash ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3ull;
        }
    };
    mix(tensor.buffer_addr, 8);
    mix(static_cast<uint32_t>(tensor.version), 4);
    return hash;
}

const char* type_name(TensorArgType type) {
    switch (type) {
        case TensorArgType::INPUT: return "INPUT";
        case TensorArgType::OUTPUT: return "OUTPUT";
        case TensorArgType::INOUT: return "INOUT";
        case TensorArgType::OUTPUT_EXISTING: return "OUTPUT_EXISTING";
    }
    return "UNKNOWN";
}

const char* source_name(EdgeSource source) {
    switch (source) {
        case EdgeSource::kExplicit: return "explicit";
        case EdgeSource::kCreator: return "creator";
        case EdgeSource::kTensorMap: return "tensormap";
    }
    return "unknown";
}

void write_list(std::ostream& out, const uint32_t* values, uint32_t count) {
    out << '[';
    for (uint32_t i = 0; i < count; ++i) {
        out << (i > 0 ? "," : "") << values[i];
    }
    out << ']';
}

void write_region(std::ostream& out, const char* prefix, const ChipTensor& tensor) {
    out << ",\"" << prefix << "shape\":";
    write_list(out, tensor.shapes, tensor.ndims);
    out << ",\"" << prefix << "start_offset\":\"" << tensor.start_offset << "\",\"" << prefix << "strides\":";
    write_list(out, tensor.strides, tensor.ndims);
}

void write_task(std::ostream& out, const Task& task) {
    out << "{\"task_id\":\"" << task.id.raw << "\",\"scope\":\"" << (task.manual_scope ? "manual" : "auto")
        << "\",\"early_dispatch\":false,\"kernel_ids\":[" << task.kernels.aic_kernel_id << ','
        << task.kernels.aiv0_kernel_id << ',' << task.kernels.aiv1_kernel_id << "],\"block_num\":" << task.block_num
        << ",\"args\":[";
    for (size_t i = 0; i < task.tensors.size(); ++i) {
        const TaskTensor& argument = task.tensors[i];
        out << (i > 0 ? "," : "") << "{\"idx\":" << i << ",\"type\":\"" << type_name(argument.type) << '"';
        // A new buffer is named by the edges that it creates.
        if (argument.type != TensorArgType::OUTPUT) {
            out << ",\"tensor_id\":\"" << tensor_id(argument.tensor) << "\",\"dtype\":\""
                << dtype_name(argument.tensor.dtype) << '"';
            write_region(out, "", argument.tensor);
        }
        out << '}';
    }
    out << "]}";
}

void write_tensors(std::ostream& out, const TaskGraph& graph) {
    std::unordered_set<uint64_t> written;
    for (const Task& task : graph.tasks) {
        for (const TaskTensor& argument : task.tensors) {
            const ChipTensor& tensor = argument.tensor;
            if (argument.type == TensorArgType::OUTPUT || !written.insert(tensor_id(tensor)).second) {
                continue;
            }
            out << (written.size() > 1 ? "," : "") << "{\"tensor_id\":\"" << tensor_id(tensor) << "\",\"buffer_addr\":\""
                << tensor.buffer_addr << "\",\"version\":" << tensor.version << ",\"dtype\":\""
                << dtype_name(tensor.dtype) << "\",\"buffer_numel\":\""
                << tensor.buffer_bytes / element_size(tensor.dtype) << "\"}";
        }
    }
}

void write_edge(std::ostream& out, const Edge& edge) {
    out << "{\"pred\":\"" << edge.predecessor.raw << "\",\"succ\":\"" << edge.successor.raw << "\",\"arg\":"
        << edge.argument << ",\"source\":\"" << source_name(edge.source) << "\",\"flags\":"
        << (edge.source == EdgeSource::kTensorMap ? "[\"wait\"]" : "[\"wait\",\"retain\"]");
    if (edge.source == EdgeSource::kTensorMap) {
        out << ",\"overlap\":\"" << (edge.overlap == Overlap::kCovered ? "covered" : "other") << '"';
    }
    if (edge.source != EdgeSource::kExplicit) {
        out << ",\"tensor_id\":\"" << tensor_id(edge.consumer) << "\",\"consumer_dtype\":\""
            << dtype_name(edge.consumer.dtype) << '"';
        write_region(out, "consumer_", edge.consumer);
    }
    if (edge.source == EdgeSource::kTensorMap) {
        write_region(out, "producer_", edge.producer);
    }
    out << '}';
}

}  // namespace

bool write_deps_json(const TaskGraph& graph, const std::string& path) {
    std::ofstream out(path, std::ios::trunc);
    out << "{\"tasks\":[";
    for (size_t i = 0; i < graph.tasks.size(); ++i) {
        out << (i > 0 ? "," : "");
        write_task(out, graph.tasks[i]);
    }
    out << "],\"tensors\":[";
    write_tensors(out, graph);
    out << "],\"edges\":[";
    for (size_t i = 0; i < graph.edges.size(); ++i) {
        out << (i > 0 ? "," : "");
        write_edge(out, graph.edges[i]);
    }
    out << "]}\n";
    out.close();
    return !out.fail();
}
