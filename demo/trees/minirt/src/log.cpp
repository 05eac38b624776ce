#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

namespace {

constexpr size_t kMaxLine = 1024;

const char* level_tag(LogLevel level) {
    switch (level) {
        case LogLevel::kTiming: return "TIMING";
        case LogLevel::kInfo: return "INFO_V9";
        case LogLevel::kWarn: return "WARN";
        case LogLevel::kError: return "ERROR";
    }
    return "?";
}

}  // namespace

void log_line(LogLevel level, const char* function, const char* format, ...) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const long long nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    const size_t thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
    char line[kMaxLine];
    int length = snprintf(
        line, sizeof line, "[mono_ns=%lld][T0x%zx][%s] %s: ", nanoseconds, thread & 0xffffffff, level_tag(level), function
    );
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - static_cast<size_t>(length), format, arguments);
    va_end(arguments);
    size_t end = std::min(static_cast<size_t>(length), sizeof line - 2);
    line[end++] = '\n';
    // A single write keeps lines of different threads whole. There is nobody left to tell when it fails.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, end);
}
