"""Perturbations: changes of a case's surroundings that may make a flaky failure certain.

The name of a run's perturbation is kept beside the run's revisions.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ..stack import Perturbation, Stack

PERTURBATION_KEY = "+perturbation"
"""A run's perturbation has this key among its revisions. No repository has such a name."""


def perturbation_name(revisions: Mapping[str, str]) -> str | None:
    """Return the name of a run's perturbation; None where the run has none."""
    return revisions.get(PERTURBATION_KEY)


def find_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Perturbation | None:
    """Return the perturbation of a run with these revisions; None where they name none."""
    name = perturbation_name(revisions)
    return None if name is None else stack.perturbations[name]


def perturbation_key(perturbation: Perturbation) -> str:
    """Return a key that identifies a perturbation, whatever its name is."""
    told = {"variables": dict(perturbation.variables), "command": perturbation.command}
    return json.dumps(told, sort_keys=True)


def apply_perturbation(stack: Stack, revisions: Mapping[str, str]) -> Stack:
    """Return the stack for a run with these revisions: the variables of its perturbation are the case's own."""
    perturbation = find_perturbation(stack, revisions)
    if perturbation is None:
        return stack
    case = stack.case.model_copy(update={"variables": {**stack.case.variables, **perturbation.variables}})
    return stack.model_copy(update={"case": case})


def perturbed_content_key(content: str, key: str) -> str:
    """Return the content key of a run under a perturbation, from the run's content and the perturbation's key."""
    return hashlib.sha256(f"{content}\nunder {key}".encode()).hexdigest()


def missing_requirements(perturbation: Perturbation, path: str | None = None) -> list[str]:
    """Return what a perturbation needs and this machine does not have. Commands are searched on `path`."""
    commands = perturbation.command[:1]
    return [
        each
        for each in (*commands, *perturbation.needs)
        if not (Path(each).exists() if os.sep in each else shutil.which(each, path=path))
    ]
