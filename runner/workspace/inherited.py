"""The variables of the user's shell that reach a case, and may change what it does."""

import os
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from ..git.repository import LOCAL_VARIABLES
from ..stack.parts import Model
from ..stack.stack import Stack

OF_ANOTHER_PYTHON = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})
"""They are not handed on where the stack has an interpreter of its own."""
_PLACES_AND_SESSIONS = frozenset(
    {
        *("HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TEMP", "TMP", "TMPDIR"),
        *("COLORTERM", "COLUMNS", "DISPLAY", "LINES", "LS_COLORS", "STY", "TERM", "WAYLAND_DISPLAY"),
        *("HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTSIZE", "MAIL", "MANPATH", "PS1", "VIRTUAL_ENV"),
        *("EDITOR", "INVOCATION_ID", "PAGER", "USER", "VISUAL", "WINDOWID", "_"),
    }
)
_OF_OTHER_PROGRAMS = (
    *("DBUS_", "DESKTOP_", "GNOME_", "JOURNAL_", "KDE_", "LESS", "SSH_", "SUDO_", "SYSTEMD_", "TERM_"),
    *("GIT_AUTHOR_", "GIT_COMMITTER_", "PRECISION_BISECT_", "PYTEST_", "TMUX", "VSCODE_", "VTE_", "XDG_"),
)
_NAMES_READ = """
    BASH_ENV ENV IFS LANG LANGUAGE LOCPATH POSIXLY_CORRECT TZ TZDIR
    AR AS CC CFLAGS COMPILER_PATH CPATH CPP CPPFLAGS CXX CXXFLAGS C_INCLUDE_PATH LD LDFLAGS LIBRARY_PATH
    MAKE MAKEFLAGS MFLAGS NM RANLIB SOURCE_DATE_EPOCH STRIP
    CLASSPATH GOARCH GODEBUG GOFLAGS GOGC GOMAXPROCS GOOS GOPATH GOROOT JDK_HOME NODE_OPTIONS NODE_PATH
    PERL5LIB PERL5OPT RUBYLIB RUBYOPT RUSTC RUSTFLAGS
"""
_FAMILIES_READ = """
    ASAN_ GCONV_ GLIBC_ LC_ LD_ LSAN_ MALLOC_ MSAN_ TSAN_ UBSAN_
    CARGO_ CCACHE_ CMAKE_ CPLUS_ GCC_ JAVA_ NINJA_ PKG_CONFIG_ PYTHON RUST_ SKBUILD_
    ATEN_ BLAS_ BLIS_ DNNL_ FLEXIBLAS GOMP_ GOTO_ KMP_ MKL_ NPY_ NUMBA_ NUMEXPR_ NUMPY_ NVPL_ OMP_ ONEDNN_ OPENBLAS_
    PYTORCH_ TBB_ TORCH TRITON_ VECLIB_
    ACL_ ASCEND CANN_ CUBLAS_ CUDA_ HCCL_ HIP_ HSA_ NCCL_ NPU_ NVIDIA_ ROCR_
"""
"""What the loader, the C library, builds, interpreters, libraries for numbers and threads, and accelerators read
although no source of a case names it: whole names, and how others begin."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*:[^/\s]*@")


class InheritedVariables(Model):
    """Values by name. Of those that may be secrets, such as an API's key, only the names are kept: `hidden`. Of
    `unread` nothing is known that would read them."""

    values: Mapping[str, str]
    hidden: tuple[str, ...]
    unread: Mapping[str, str] = {}

    def read_by(self, named: AbstractSet[str]) -> "InheritedVariables":
        """The same, where only those of some names, and of those that any program may read, are known to be read.

        >>> inherited_variables({"MALLOC_PERTURB_": "165", "DEPTH": "3", "WIFI": "on"}).read_by({"DEPTH"}).unread
        {'WIFI': 'on'}
        """
        known, families = named | {*_NAMES_READ.split()}, tuple(_FAMILIES_READ.split())
        read = {name for name in self.values if name in known or name.startswith(families)}
        return InheritedVariables(
            values={name: value for name, value in self.values.items() if name in read},
            hidden=self.hidden,
            unread={name: value for name, value in self.values.items() if name not in read},
        )


def reaching_cases(stack: Stack, variables: Mapping[str, str] = os.environ) -> InheritedVariables:
    """What of an environment reaches the cases of a stack, apart from what the stack sets or watches itself."""
    own = {*stack.environment.variables, *stack.environment.matters, *stack.case.variables}
    if stack.needs_python:
        own |= OF_ANOTHER_PYTHON
    return inherited_variables({name: value for name, value in variables.items() if name not in own})


def inherited_variables(variables: Mapping[str, str]) -> InheritedVariables:
    """What of an environment could change a case's result: not where things are, nor whose terminal it is.

    >>> inherited_variables({"MALLOC_PERTURB_": "165", "HOME": "/root", "HF_TOKEN": "x"})
    InheritedVariables(values={'MALLOC_PERTURB_': '165'}, hidden=('HF_TOKEN',), unread={})
    """
    telling = {name: variables[name] for name in sorted(variables) if _may_matter(name)}
    hidden = tuple(name for name, value in telling.items() if _may_be_secret(name, value))
    return InheritedVariables(
        values={name: value for name, value in telling.items() if name not in hidden}, hidden=hidden
    )


def changed_since(before: InheritedVariables, now: InheritedVariables) -> Iterator[str]:
    """What differs between two environments, a phrase each; a secret is only said to be there or not.

    >>> list(changed_since(inherited_variables({"A": "1"}), inherited_variables({"B": "2"})))
    ['A was 1, is not set', 'B is 2, was not set']
    """
    old, new = _shown(before), _shown(now)
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name} was {old[name]}, is not set"
        elif name not in old:
            yield f"{name} is {new[name]}, was not set"
        elif old[name] != new[name]:
            yield f"{name} was {old[name]}, is {new[name]}"


def _may_matter(name: str) -> bool:
    elsewhere = name in _PLACES_AND_SESSIONS or name in LOCAL_VARIABLES
    return _NAME.fullmatch(name) is not None and not elsewhere and not name.startswith(_OF_OTHER_PROGRAMS)


def _may_be_secret(name: str, value: str) -> bool:
    return _SECRET_NAME.search(name) is not None or _SECRET_VALUE.search(value) is not None


def _shown(variables: InheritedVariables) -> dict[str, str]:
    return {**variables.values, **variables.unread, **dict.fromkeys(variables.hidden, "set (not shown)")}
