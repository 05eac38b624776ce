"""The variables of the user's shell that reach a case, and may change what it does."""

import os
import re
from collections.abc import Iterator, Mapping

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
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*:[^/\s]*@")


class InheritedVariables(Model):
    """Values by name. Of those that may be secrets, such as an API's key, only the names are kept: `hidden`."""

    values: Mapping[str, str]
    hidden: tuple[str, ...]


def reaching_cases(stack: Stack, variables: Mapping[str, str] = os.environ) -> InheritedVariables:
    """What of an environment reaches the cases of a stack, apart from what the stack sets or watches itself."""
    own = {*stack.environment.variables, *stack.environment.matters, *stack.case.variables}
    if stack.needs_python:
        own |= OF_ANOTHER_PYTHON
    return inherited_variables({name: value for name, value in variables.items() if name not in own})


def inherited_variables(variables: Mapping[str, str]) -> InheritedVariables:
    """What of an environment could change a case's result: not where things are, nor whose terminal it is.

    >>> inherited_variables({"MALLOC_PERTURB_": "165", "HOME": "/root", "HF_TOKEN": "x"})
    InheritedVariables(values={'MALLOC_PERTURB_': '165'}, hidden=('HF_TOKEN',))
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
    return {**variables.values, **dict.fromkeys(variables.hidden, "set (not shown)")}
