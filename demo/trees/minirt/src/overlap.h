// Do two strided regions of one buffer share elements?
#pragma once

#include "pto_tensor.h"

enum class Overlap {
    kNone,
    kCovered,  // every element of `earlier` is in `later`
    kOther,    // some elements are shared, or it cannot be ruled out
};

// Exact where both regions are boxes of one row-major layout (equal strides, each a multiple of the next, the last 1).
// Elsewhere (transposed, mixed ranks) the spans from first to last element are compared: never kNone by mistake.
Overlap region_overlap(const ChipTensor& later, const ChipTensor& earlier);
