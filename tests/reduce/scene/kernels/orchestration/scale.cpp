// y = x * 3
#include "pto_orchestration_api.h"

extern "C" PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs& orch_args) {
    return PTO2OrchestrationConfig{.expected_arg_count = 3};
}

extern "C" void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
    const ChipTensor& ext_x = orch_args.tensor(0).ref();
    const ChipTensor& ext_y = orch_args.tensor(1).ref();
    uint64_t offset = orch_args.scalar(0);
    PTO2_SCOPE() {
        CoreTaskArgs params;
        params.add_input(ext_x);
        params.add_output(ext_y);
        params.add_scalar(offset);
        rt_submit_aiv_task(0, params);
    }
}
