// Writes a run's task graph as deps.json.
#pragma once

#include <string>

#include "task_graph.h"

// False if the file could not be written. Numbers of 64 bits are strings: JSON readers may hold numbers as doubles.
bool write_deps_json(const TaskGraph& graph, const std::string& path);
