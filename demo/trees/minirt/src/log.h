// Log lines on standard error, one write a line, from any thread.
#pragma once

enum class LogLevel { kTiming, kInfo, kWarn, kError };

// printf-style; the line ends by itself. Lines longer than 1 KiB are cut.
__attribute__((format(printf, 3, 4))) void log_line(LogLevel level, const char* function, const char* format, ...);

#define LOG_INFO(...) log_line(LogLevel::kInfo, __func__, __VA_ARGS__)
#define LOG_WARN(...) log_line(LogLevel::kWarn, __func__, __VA_ARGS__)
#define LOG_ERROR(...) log_line(LogLevel::kError, __func__, __VA_ARGS__)
