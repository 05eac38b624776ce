"""What a failed build step prints when the machine is at fault, and not the commit that is built."""

import re

from ...store.vocabulary import Verdict
from .rules import VerdictRule


def _environment(pattern: str, signature: str) -> VerdictRule:
    return VerdictRule(
        verdict=Verdict.ENVIRONMENT_ERROR,
        pattern=re.compile(pattern),
        signature=signature,
        endings=("exit", "signal", "timeout"),
    )


# Warnings are left out: pip and git warn of a network they then do without.
_NOT_A_WARNING = r"^(?!\s*WARNING\b).*"

_TOOLS = r"cmake|ninja|make|git|ccache|cc|c\+\+|gcc|g\+\+(?:-\d+)?|clang(?:\+\+)?|ptoas|pip|python3?"

# Lines may be indented: pip shows what a failed build printed that way.
BUILD_RULES = (
    _environment(r"\b[Nn]o space left on device\b|\b[Dd]isk quota exceeded\b", "disk full"),
    _environment(r"\b(?:Read-only file system|Too many open files)\b", "file system"),
    _environment(
        r"\bKilled signal terminated program\b|internal compiler error: Killed\b"
        r"|\bvirtual memory exhausted\b|\bout of memory allocating\b|[Cc]annot allocate memory\b",
        "out of memory",
    ),
    _environment(
        _NOT_A_WARNING + r"(?:Could not resolve (?:host|hostname)|Temporary failure in name resolution"
        r"|Network is unreachable|Failed to establish a new connection|Connection (?:refused|timed out)"
        r"|Failed to connect to \S+ port|unable to access '[^']*'|TLS connect error|SSL certificate problem)",
        "network",
    ),
    _environment(
        r"^\s*ERROR: (?:Could not find a version that satisfies the requirement|No matching distribution found)"
        r" (?:for )?(?P<package>[\w.-]+)",
        "missing package {package}",
    ),
    _environment(
        r"^\s*(?:\S*/)?(?:ba|da|z)?sh: .*\b(?P<tool>[\w.+-]+): (?:command )?not found$"
        rf"|^\s*make(?:\[\d+\])?: (?P<program>{_TOOLS}): No such file or directory$"
        rf"|\[Errno 2\] No such file or directory: '(?P<command>{_TOOLS})'$",
        "missing tool {tool}{program}{command}",
    ),
    _environment(
        r"\bBackendUnavailable\b|\bModuleNotFoundError: No module named "
        r"'(?:scikit_build_core|setuptools|wheel|nanobind|pybind11|hatchling)\b",
        "missing build backend",
    ),
    _environment(
        r"Could not find CMAKE_ROOT|No CMAKE_\w+_COMPILER could be found"
        r"|CMake was unable to find a build program corresponding to",
        "missing tool cmake",
    ),
    VerdictRule(
        verdict=Verdict.BUILD_ERROR,
        pattern=re.compile(
            r"^\s*(?:\S*/)?(?P<file>[^\s/:]+):\d+(?::\d+)?: (?:fatal )?error: (?P<message>.*)"
        ),
        signature="{file}: {message}",
    ),
)
