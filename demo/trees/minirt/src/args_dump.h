// Records the values of task arguments: args_dump.json (metadata) beside args.bin (payloads).
#pragma once

#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "task_graph.h"

enum class DumpLevel : int32_t {
    kOff = 0,
    kTagged = 1,    // what the orchestration marked with CoreTaskArgs::dump
    kFull = 2,      // every argument
    kMetadata = 3,  // a record for every argument, payloads for the marked ones only
};

enum class DumpStage { kBeforeDispatch, kAfterCompletion };

class ArgsDump {
public:
    // A larger payload is cut to this size and flagged. MINIRT_DUMP_ARENA_BYTES lowers it.
    static constexpr uint64_t kArenaBytes = 128ull << 20;

    // Files go to `directory`, which exists; those of an earlier run are removed.
    ArgsDump(DumpLevel level, std::string directory, uint64_t arena_bytes = kArenaBytes);

    // Safe to call from several threads: payloads lie in args.bin in the order in which threads get here.
    void record(const Task& task, DumpStage stage);

    // Writes args_dump.json, if anything was recorded. False if a file could not be written.
    bool finish();

private:
    struct Record {
        PTO2TaskId task;
        std::vector<int32_t> func_ids;
        uint32_t arg_index;
        const char* role;
        DumpStage stage;
        bool is_scalar;
        uint64_t scalar_bits;
        ChipTensor tensor;  // a scalar's is a 0-dimensional one that carries its type
        uint64_t bin_offset;
        uint64_t bin_size;
        bool truncated;
    };

    void record_tensor(const Task& task, uint32_t index, DumpStage stage);
    void record_scalar(const Task& task, uint32_t index);
    void append_payload(Record& record);
    void write_record(std::ostream& out, const Record& record) const;

    DumpLevel level_;
    std::string directory_;
    uint64_t arena_bytes_;
    std::mutex mutex_;
    std::ofstream payloads_;
    uint64_t payload_bytes_ = 0;
    std::vector<Record> records_;
};
