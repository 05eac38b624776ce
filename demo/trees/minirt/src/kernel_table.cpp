#include "kernel_table.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace {

KernelTensor kernel_view(const ChipTensor& tensor) {
    KernelTensor view = {};
    view.data = reinterpret_cast<void*>(tensor.buffer_addr);
    view.dtype = static_cast<int32_t>(tensor.dtype);
    view.ndim = tensor.ndims;
    std::copy(std::begin(tensor.shapes), std::end(tensor.shapes), view.shape);
    std::copy(std::begin(tensor.strides), std::end(tensor.strides), view.strides);
    view.start_offset = tensor.start_offset;
    return view;
}

}  // namespace

void KernelTable::load(int32_t func_id, const std::string& path) {
    SharedObject object(path);
    const auto entry = object.function<void(const KernelArgs&)>("kernel_entry");
    kernels_.emplace(func_id, Kernel{std::move(object), entry});
}

void KernelTable::run(const Task& task) const {
    std::vector<KernelTensor> tensors;
    for (const TaskTensor& argument : task.tensors) {
        tensors.push_back(kernel_view(argument.tensor));
    }
    std::vector<uint64_t> scalars;
    for (const TaskScalar& argument : task.scalars) {
        scalars.push_back(argument.bits);
    }
    for (const int32_t func_id : task.func_ids()) {
        for (int32_t block = 0; block < task.block_num; ++block) {
            const KernelArgs args = {
                tensors.data(), static_cast<uint32_t>(tensors.size()), scalars.data(),
                static_cast<uint32_t>(scalars.size()), block, task.block_num,
            };
            kernels_.at(func_id).entry(args);
        }
    }
}
