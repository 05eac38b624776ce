#include "task_graph.h"

#include <cstdlib>

std::vector<int32_t> Task::func_ids() const {
    std::vector<int32_t> ids;
    for (const int32_t id : {kernels.aic_kernel_id, kernels.aiv0_kernel_id, kernels.aiv1_kernel_id}) {
        if (id != INVALID_KERNEL_ID) {
            ids.push_back(id);
        }
    }
    return ids;
}

void BufferDeleter::operator()(uint8_t* bytes) const { std::free(bytes); }
