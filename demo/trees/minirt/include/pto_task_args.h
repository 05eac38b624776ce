// The arguments of one task, and the tensors that submitting it returns.
#pragma once

#include <stdint.h>

#include "pto_tensor.h"

constexpr uint32_t CORE_MAX_TENSOR_ARGS = 32;
constexpr uint32_t CORE_MAX_SCALAR_ARGS = 32;

enum class TensorArgType : int32_t {
    INPUT = 0,
    OUTPUT = 1,  // allocated by the runtime
    INOUT = 2,
    OUTPUT_EXISTING = 3,
};

class PTO2LaunchSpec {
public:
    int32_t block_num() const { return block_num_; }
    void set_block_num(int32_t count) { block_num_ = count; }

private:
    int32_t block_num_ = 1;
};

// How a scalar's 64 bits are to be read in a dump.
template <typename T>
struct ScalarType {
    static constexpr DataType value = DataType::UINT64;
};
template <> struct ScalarType<float> { static constexpr DataType value = DataType::FLOAT32; };
template <> struct ScalarType<bool> { static constexpr DataType value = DataType::BOOL; };
template <> struct ScalarType<int> { static constexpr DataType value = DataType::INT32; };
template <> struct ScalarType<unsigned> { static constexpr DataType value = DataType::UINT32; };
template <> struct ScalarType<long> { static constexpr DataType value = DataType::INT64; };
template <> struct ScalarType<long long> { static constexpr DataType value = DataType::INT64; };

// Tensors first, scalars after them. A kernel sees them in the order of the add_ calls.
class CoreTaskArgs {
public:
    struct TensorSlot {
        TensorArgType type = TensorArgType::INPUT;
        ChipTensor tensor;             // unused for OUTPUT
        TensorCreateInfo create_info;  // OUTPUT only
        const void* source = nullptr;  // the caller's object, by which dump() finds a create-info
        bool dump = false;
    };
    struct ScalarSlot {
        uint64_t bits = 0;
        DataType dtype = DataType::UINT64;
        const void* source = nullptr;
        bool dump = false;
    };

    PTO2LaunchSpec launch_spec;

    CoreTaskArgs() = default;
    CoreTaskArgs(const CoreTaskArgs&) = delete;
    CoreTaskArgs& operator=(const CoreTaskArgs&) = delete;

    template <typename... Tensors>
    void add_input(const Tensors&... tensors) {
        (add_existing(TensorArgType::INPUT, tensors), ...);
    }
    template <typename... Tensors>
    void add_inout(const Tensors&... tensors) {
        (add_existing(TensorArgType::INOUT, tensors), ...);
    }
    // A tensor: a write that reads nothing. A TensorCreateInfo: a new buffer, see TaskOutputTensors.
    template <typename... Targets>
    void add_output(const Targets&... targets) {
        (add_output_slot(targets), ...);
    }
    template <typename... Scalars>
    void add_scalar(const Scalars&... scalars) {
        (add_scalar_slot(scalars), ...);
    }

    // Tasks that must finish first, besides those found from the tensors. Both kinds of scope honour them.
    void set_dependencies(const PTO2TaskId* tasks, uint32_t count) {
        dependencies_ = tasks;  // the caller's array, which must live until the submit
        dependency_count_ = count;
    }

    // Level-1 dump marks: with no argument the whole task, else the named arguments, which must have been added.
    template <typename... Marked>
    void dump(Marked&... marked) {
        if constexpr (sizeof...(Marked) == 0) {
            dump_all_ = true;
        } else {
            (mark(marked), ...);
        }
    }

    uint32_t tensor_count() const { return tensor_count_; }
    uint32_t scalar_count() const { return scalar_count_; }
    const TensorSlot& tensor_slot(uint32_t index) const { return tensors_[index]; }
    const ScalarSlot& scalar_slot(uint32_t index) const { return scalars_[index]; }
    bool dump_all() const { return dump_all_; }
    const PTO2TaskId* dependencies() const { return dependencies_; }
    uint32_t dependency_count() const { return dependency_count_; }

private:
    TensorSlot& next_tensor_slot() {
        if (scalar_count_ > 0) {
            minirt_orchestration_error("task arguments: a tensor was added after a scalar");
        }
        if (tensor_count_ == CORE_MAX_TENSOR_ARGS) {
            minirt_orchestration_error("task arguments: more than 32 tensors");
        }
        return tensors_[tensor_count_++];
    }

    void add_existing(TensorArgType type, const ChipTensor& tensor) {
        TensorSlot& slot = next_tensor_slot();
        slot.type = type;
        slot.tensor = tensor;
        slot.source = &tensor;
    }
    void add_output_slot(const ChipTensor& tensor) { add_existing(TensorArgType::OUTPUT_EXISTING, tensor); }
    void add_output_slot(const TensorCreateInfo& create_info) {
        TensorSlot& slot = next_tensor_slot();
        slot.type = TensorArgType::OUTPUT;
        slot.create_info = create_info;
        slot.source = &create_info;
    }

    template <typename T>
    void add_scalar_slot(const T& scalar) {
        if (scalar_count_ == CORE_MAX_SCALAR_ARGS) {
            minirt_orchestration_error("task arguments: more than 32 scalars");
        }
        ScalarSlot& slot = scalars_[scalar_count_++];
        slot.bits = to_u64(scalar);
        slot.dtype = ScalarType<T>::value;
        slot.source = &scalar;
    }

    void mark(const ChipTensor& tensor) {
        bool found = false;
        for (uint32_t i = 0; i < tensor_count_; ++i) {
            if (tensors_[i].type != TensorArgType::OUTPUT && tensors_[i].tensor.same_region(tensor)) {
                tensors_[i].dump = true;
                found = true;
            }
        }
        require_found(found);
    }
    void mark(const TensorCreateInfo& create_info) {
        bool found = false;
        for (uint32_t i = 0; i < tensor_count_; ++i) {
            if (tensors_[i].source == &create_info) {
                tensors_[i].dump = true;
                found = true;
            }
        }
        require_found(found);
    }
    template <typename T>
    void mark(const T& scalar) {
        bool found = false;
        for (uint32_t i = 0; i < scalar_count_; ++i) {
            if (scalars_[i].source == &scalar) {
                scalars_[i].dump = true;
                found = true;
            }
        }
        require_found(found);
    }
    static void require_found(bool found) {
        if (!found) {
            minirt_orchestration_error("dump: not an argument of this task");
        }
    }

    TensorSlot tensors_[CORE_MAX_TENSOR_ARGS];
    ScalarSlot scalars_[CORE_MAX_SCALAR_ARGS];
    uint32_t tensor_count_ = 0;
    uint32_t scalar_count_ = 0;
    const PTO2TaskId* dependencies_ = nullptr;
    uint32_t dependency_count_ = 0;
    bool dump_all_ = false;
};

// The buffers that a submit (or alloc_tensors) allocated, in the order of their add_output calls.
class TaskOutputTensors {
public:
    PTO2TaskId task_id() const { return task_id_; }
    uint32_t size() const { return count_; }

    const ChipTensor& get_ref(uint32_t index) const& {
        if (index >= count_) {
            minirt_orchestration_error("get_ref: the task allocated fewer tensors");
        }
        return tensors_[index];
    }
    const ChipTensor& get_ref(uint32_t index) const&& = delete;  // the reference would dangle

    void set_task_id(PTO2TaskId id) { task_id_ = id; }
    void append(const ChipTensor& tensor) { tensors_[count_++] = tensor; }

private:
    PTO2TaskId task_id_ = PTO2TaskId::invalid();
    uint32_t count_ = 0;
    ChipTensor tensors_[CORE_MAX_TENSOR_ARGS];
};

using Arg = CoreTaskArgs;         // spellings of older sources
using L0TaskArgs = CoreTaskArgs;
