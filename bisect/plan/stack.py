"""Which stack is meant where none is named: that of the current folder, or a repository alone."""

from collections.abc import Mapping
from pathlib import Path

from ...runner.errors import UsageError
from ...runner.git.repository import GitError, GitRepository
from ...runner.stack.checkout import checkout_root
from ...runner.stack.file import load_stack, stack_of_checkout
from ...runner.stack.stack import Stack, is_plain_name
from .predicate import predicate_stack


def chosen_stack(
    name: str | None, overrides: Mapping[str, Path], *, by_checkout: bool = True
) -> Stack | None:
    """The stack of this name or file, else that of `stack.toml` in the current folder, else (`by_checkout`) the one
    whose checkout this is; None where it is none of these.

    Raises:
        UsageError: its file cannot be used.
    """
    if name is None and Path("stack.toml").is_file():
        name = "stack.toml"
    if name is None and by_checkout:
        name = stack_of_checkout(checkout_root(Path.cwd()))
    return None if name is None else load_stack(name, overrides=overrides)


def repository_stack(overrides: Mapping[str, Path]) -> Stack:
    """A stack of the one repository that is named, else of the one that the current folder lies in.

    Raises:
        UsageError: there is none, or there are several.
    """
    if len(overrides) > 1:
        raise UsageError(
            f"--repository: expected one where no stack is named, found {', '.join(overrides)}; name the stack of them "
            "all with --stack"
        )
    for name, path in overrides.items():
        if not is_plain_name(name):
            raise UsageError(f"--repository {name}={path}: expected a name of letters, digits, - and _")
        return predicate_stack(GitRepository.open_root(path, name=name).path, name=name)
    try:
        root = GitRepository(Path.cwd()).root
    except GitError as error:
        here = Path.cwd()
        if (
            git_folder := next((each for each in (here, *here.parents) if each.name == ".git"), None)
        ) is not None:
            raise UsageError(
                f"expected a git checkout, found the inside of {git_folder}: begin in {git_folder.parent}"
            ) from error
        raise UsageError(
            f"expected a git checkout, found none around {here}: begin in one, or name a stack with --stack, or "
            "one repository with --repository NAME=PATH"
        ) from error
    return predicate_stack(root)
