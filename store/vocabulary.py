"""The words that every room uses for what a probe showed."""

from enum import StrEnum


class Verdict(StrEnum):
    """What one build-and-run of a case at one commit turned out to be."""

    PASS = "pass"
    MISMATCH = "mismatch"
    COMPILE_ERROR = "compile_error"
    ASSEMBLE_ERROR = "assemble_error"
    KERNEL_COMPILE_ERROR = "kernel_compile_error"
    STALL = "stall"
    CRASH = "crash"
    DEVICE_ERROR = "device_error"
    TIMEOUT = "timeout"
    BUILD_ERROR = "build_error"
    ENVIRONMENT_ERROR = "environment_error"
    NOT_VALIDATED = "not_validated"
    UNKNOWN = "unknown"
