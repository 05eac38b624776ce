#include "overlap.h"

#include <algorithm>

namespace {

// Elements from the region's first to its last, both included.
uint64_t span(const ChipTensor& tensor) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < tensor.ndims; ++i) {
        if (tensor.shapes[i] == 0) {
            return 0;
        }
        last += static_cast<uint64_t>(tensor.shapes[i] - 1) * tensor.strides[i];
    }
    return last + 1;
}

bool same_row_major_layout(const ChipTensor& a, const ChipTensor& b) {
    if (a.dtype != b.dtype || a.ndims != b.ndims || a.ndims == 0 || a.strides[a.ndims - 1] != 1) {
        return false;
    }
    for (uint32_t i = 0; i < a.ndims; ++i) {
        if (a.strides[i] != b.strides[i] || (i > 0 && a.strides[i - 1] % a.strides[i] != 0)) {
            return false;
        }
    }
    return true;
}

struct Box {
    uint64_t begin[MAX_TENSOR_DIMS];
    uint64_t end[MAX_TENSOR_DIMS];
};

// False if the region runs over the end of a row: then it is no box of the layout.
bool to_box(const ChipTensor& tensor, Box& box) {
    uint64_t rest = tensor.start_offset;
    for (uint32_t i = 0; i < tensor.ndims; ++i) {
        box.begin[i] = rest / tensor.strides[i];
        box.end[i] = box.begin[i] + tensor.shapes[i];
        rest %= tensor.strides[i];
        if (i > 0 && box.end[i] > tensor.strides[i - 1] / tensor.strides[i]) {
            return false;
        }
    }
    return true;
}

}  // namespace

Overlap region_overlap(const ChipTensor& later, const ChipTensor& earlier) {
    const uint64_t later_end = later.start_offset + span(later);
    const uint64_t earlier_end = earlier.start_offset + span(earlier);
    if (later_end <= earlier.start_offset || earlier_end <= later.start_offset || span(later) == 0 || span(earlier) == 0) {
        return Overlap::kNone;
    }
    Box outer;
    Box inner;
    if (!same_row_major_layout(later, earlier) || !to_box(later, outer) || !to_box(earlier, inner)) {
        return Overlap::kOther;
    }
    bool covered = true;
    for (uint32_t i = 0; i < later.ndims; ++i) {
        if (outer.end[i] <= inner.begin[i] || inner.end[i] <= outer.begin[i]) {
            return Overlap::kNone;
        }
        covered = covered && outer.begin[i] <= inner.begin[i] && inner.end[i] <= outer.end[i];
    }
    return covered ? Overlap::kCovered : Overlap::kOther;
}
