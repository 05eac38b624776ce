"""What is changed around a case to make a failure certain that comes and goes, beside the revisions of a run."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..stack.parts import Perturbation
from ..stack.stack import Stack

UNDER = "+perturbation"
"""How the perturbation of a run is named among its revisions; no repository has such a name."""


def perturbation_in(revisions: Mapping[str, str]) -> str | None:
    """The name of the perturbation under which a run is made; None where it is made as it is."""
    return revisions.get(UNDER)


def perturbation_of(stack: Stack, revisions: Mapping[str, str]) -> Perturbation | None:
    """What is changed around a run with these revisions; None where they name no perturbation."""
    name = perturbation_in(revisions)
    return None if name is None else stack.perturbations[name]


def key_of(perturbation: Perturbation) -> str:
    """What tells a perturbation from others, whatever it is called."""
    told = {"variables": dict(perturbation.variables), "command": perturbation.command}
    return json.dumps(told, sort_keys=True)


def with_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Stack:
    """The stack as a run with these revisions has it: the variables of its perturbation are the case's own."""
    perturbation = perturbation_of(stack, revisions)
    if perturbation is None:
        return stack
    case = stack.case.model_copy(update={"variables": {**stack.case.variables, **perturbation.variables}})
    return stack.model_copy(update={"case": case})


def content_under(content: str, key: str) -> str:
    """The content key of a run of some content under a perturbation, by the perturbation's own key."""
    return hashlib.sha256(f"{content}\nunder {key}".encode()).hexdigest()


def lacking(perturbation: Perturbation, path: str | None = None) -> list[str]:
    """What a perturbation needs that this machine does not have; `path` is where commands are looked for."""
    commands = perturbation.command[:1]
    return [
        each
        for each in (*commands, *perturbation.needs)
        if not (Path(each).exists() if os.sep in each else shutil.which(each, path=path))
    ]
