// Spelling of element types in the files that the runtime writes.
#pragma once

#include "pto_data_type.h"

inline const char* dtype_name(DataType dtype) {
    switch (dtype) {
        case DataType::FLOAT32: return "FLOAT32";
        case DataType::FLOAT16: return "FLOAT16";
        case DataType::INT32: return "INT32";
        case DataType::INT16: return "INT16";
        case DataType::INT8: return "INT8";
        case DataType::UINT8: return "UINT8";
        case DataType::BFLOAT16: return "BFLOAT16";
        case DataType::INT64: return "INT64";
        case DataType::UINT64: return "UINT64";
        case DataType::UINT16: return "UINT16";
        case DataType::UINT32: return "UINT32";
        case DataType::BOOL: return "BOOL";
    }
    return "UNKNOWN";
}
