#include "args_dump.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iomanip>
#include <tuple>
#include <utility>

#include "dtype_name.h"

namespace {

// The tensor's elements in row-major order, without the gaps of its strides.
std::vector<char> pack(const ChipTensor& tensor) {
    const uint32_t width = element_size(tensor.dtype);
    const uint64_t count = tensor.numel();
    const char* buffer = reinterpret_cast<const char*>(tensor.buffer_addr);
    std::vector<char> packed(count * width);
    if (tensor.is_contiguous()) {
        std::memcpy(packed.data(), buffer + tensor.start_offset * width, packed.size());
        return packed;
    }
    uint32_t position[MAX_TENSOR_DIMS] = {};
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t offset = tensor.start_offset;
        for (uint32_t d = 0; d < tensor.ndims; ++d) {
            offset += static_cast<uint64_t>(position[d]) * tensor.strides[d];
        }
        std::memcpy(packed.data() + i * width, buffer + offset * width, width);
        for (uint32_t d = tensor.ndims; d-- > 0;) {
            if (++position[d] < tensor.shapes[d]) {
                break;
            }
            position[d] = 0;
        }
    }
    return packed;
}

const char* role_of(TensorArgType type) {
    switch (type) {
        case TensorArgType::INPUT: return "input";
        case TensorArgType::INOUT: return "inout";
        case TensorArgType::OUTPUT:
        case TensorArgType::OUTPUT_EXISTING: return "output";
    }
    return "unknown";
}

bool has_stage(TensorArgType type, DumpStage stage) {
    if (type == TensorArgType::INOUT) {
        return true;
    }
    return (type == TensorArgType::INPUT) == (stage == DumpStage::kBeforeDispatch);
}

void write_scalar(std::ostream& out, uint64_t bits, DataType dtype) {
    if (dtype == DataType::FLOAT32) {
        const float value = from_u64<float>(bits);
        if (std::isnan(value)) {
            out << "null";
        } else if (std::isinf(value)) {
            out << (value < 0 ? "\"-$Inf\"" : "\"$Inf\"");
        } else {
            char text[32];
            std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
            const bool looks_integral = std::strpbrk(text, ".e") == nullptr;
            out << text << (looks_integral ? ".0" : "");
        }
    } else if (dtype == DataType::INT32) {
        out << from_u64<int32_t>(bits);
    } else if (dtype == DataType::INT64) {
        out << from_u64<int64_t>(bits);
    } else if (dtype == DataType::BOOL) {
        out << (bits != 0 ? "true" : "false");
    } else {
        out << bits;
    }
}

void write_list(std::ostream& out, const uint32_t* values, uint32_t count) {
    out << '[';
    for (uint32_t i = 0; i < count; ++i) {
        out << (i > 0 ? ", " : "") << values[i];
    }
    out << ']';
}

template <typename T>
void write_header_line(std::ostream& out, const char* key, const T& value) {
    out << "  \"" << key << "\": " << value << ",\n";
}

}  // namespace

ArgsDump::ArgsDump(DumpLevel level, std::string directory, uint64_t arena_bytes)
    : level_(level), directory_(std::move(directory)), arena_bytes_(arena_bytes) {
    std::remove((directory_ + "/args_dump.json").c_str());
    std::remove((directory_ + "/args.bin").c_str());
}

void ArgsDump::record(const Task& task, DumpStage stage) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (uint32_t i = 0; i < task.tensors.size(); ++i) {
        if (has_stage(task.tensors[i].type, stage) && (level_ != DumpLevel::kTagged || task.tensors[i].dump)) {
            record_tensor(task, i, stage);
        }
    }
    if (stage == DumpStage::kBeforeDispatch) {
        for (uint32_t i = 0; i < task.scalars.size(); ++i) {
            if (level_ != DumpLevel::kTagged || task.scalars[i].dump) {
                record_scalar(task, i);
            }
        }
    }
}

void ArgsDump::record_tensor(const Task& task, uint32_t index, DumpStage stage) {
    const TaskTensor& argument = task.tensors[index];
    Record record{task.id, task.func_ids(), index, role_of(argument.type), stage, false, 0, argument.tensor, 0, 0, false};
    if (level_ != DumpLevel::kMetadata || argument.dump) {
        append_payload(record);
    }
    records_.push_back(record);
}

void ArgsDump::record_scalar(const Task& task, uint32_t index) {
    const TaskScalar& argument = task.scalars[index];
    const uint32_t arg_index = static_cast<uint32_t>(task.tensors.size()) + index;
    ChipTensor type_only;
    type_only.dtype = argument.dtype;
    records_.push_back(
        {task.id, task.func_ids(), arg_index, "input", DumpStage::kBeforeDispatch, true, argument.bits, type_only, 0, 0, false}
    );
}

void ArgsDump::append_payload(Record& record) {
    if (!payloads_.is_open()) {
        payloads_.open(directory_ + "/args.bin", std::ios::binary | std::ios::trunc);
    }
    const std::vector<char> packed = pack(record.tensor);
    record.bin_offset = payload_bytes_;
    record.bin_size = std::min<uint64_t>(packed.size(), arena_bytes_);
    record.truncated = record.bin_size < packed.size();
    payloads_.write(packed.data(), static_cast<std::streamsize>(record.bin_size));
    payload_bytes_ += record.bin_size;
}

bool ArgsDump::finish() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records_.empty()) {
        return true;
    }
    std::sort(records_.begin(), records_.end(), [](const Record& a, const Record& b) {
        return std::tie(a.task.raw, a.stage, a.arg_index) < std::tie(b.task.raw, b.stage, b.arg_index);
    });
    const auto count = [this](auto predicate) { return std::count_if(records_.begin(), records_.end(), predicate); };
    const auto count_role = [&](const char* role) {
        return count([role](const Record& record) { return std::strcmp(record.role, role) == 0; });
    };
    const auto before = count([](const Record& record) { return record.stage == DumpStage::kBeforeDispatch; });

    const bool wants_payload_file = level_ != DumpLevel::kMetadata;
    if (wants_payload_file && !payloads_.is_open()) {  // scalars only: the file is there, and empty
        payloads_.open(directory_ + "/args.bin", std::ios::binary | std::ios::trunc);
    }
    const bool has_payload_file = payloads_.is_open();
    payloads_.close();

    std::ofstream out(directory_ + "/args_dump.json", std::ios::trunc);
    out << "{\n  \"run_dir\": \"args_dump\",\n";
    out << "  \"bin_format\": {\n    \"type\": \"logical_contiguous\",\n    \"byte_order\": \"little_endian\"\n  },\n";
    write_header_line(out, "dump_args_level", static_cast<int32_t>(level_));
    write_header_line(out, "total_args", records_.size());
    write_header_line(out, "before_dispatch", before);
    write_header_line(out, "after_completion", static_cast<int64_t>(records_.size()) - before);
    write_header_line(out, "input_args", count_role("input"));
    write_header_line(out, "output_args", count_role("output"));
    write_header_line(out, "inout_args", count_role("inout"));
    write_header_line(out, "truncated_args", count([](const Record& record) { return record.truncated; }));
    write_header_line(out, "dropped_records", 0);    // payloads are written through, so nothing is ever dropped
    write_header_line(out, "dropped_overwrite", 0);
    write_header_line(out, "bin_file", has_payload_file ? "\"args.bin\"" : "null");
    out << "  \"args\": [\n";
    for (size_t i = 0; i < records_.size(); ++i) {
        out << (i > 0 ? ",\n" : "");
        write_record(out, records_[i]);
    }
    out << "\n  ]\n}\n";
    out.close();
    return !out.fail() && (!has_payload_file || !payloads_.fail());
}

void ArgsDump::write_record(std::ostream& out, const Record& record) const {
    const ChipTensor& tensor = record.tensor;
    out << "    {\"task_id\": \"0x" << std::hex << std::setfill('0') << std::setw(16) << record.task.raw << std::dec << '"';
    out << ", \"func_id\": [";
    for (size_t i = 0; i < record.func_ids.size(); ++i) {
        out << (i > 0 ? ", " : "") << record.func_ids[i];
    }
    out << "], \"arg_index\": " << record.arg_index << ", \"role\": \"" << record.role << "\", \"stage\": \""
        << (record.stage == DumpStage::kBeforeDispatch ? "before_dispatch" : "after_completion") << "\", \"kind\": \""
        << (record.is_scalar ? "scalar" : "tensor") << "\", \"dtype\": \"" << dtype_name(tensor.dtype) << '"';
    if (record.is_scalar) {
        out << ", \"value\": ";
        write_scalar(out, record.scalar_bits, tensor.dtype);
    }
    out << ", \"is_contiguous\": " << (tensor.is_contiguous() ? "true" : "false") << ", \"shape\": ";
    write_list(out, tensor.shapes, tensor.ndims);
    out << ", \"strides\": ";
    write_list(out, tensor.strides, tensor.ndims);
    out << ", \"start_offset\": " << tensor.start_offset << ", \"numel\": " << tensor.numel()
        << ", \"bin_offset\": " << record.bin_offset << ", \"bin_size\": " << record.bin_size
        << ", \"truncated\": " << (record.truncated ? "true" : "false") << ", \"overwritten\": false}";
}
