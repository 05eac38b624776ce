#include "../common.h"
#include "not_ours.h"
