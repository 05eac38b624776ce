"""A question as it was typed: from the options of `bisect-precision` to a `Question`.

`question_of` is the entry. It refuses options that contradict each other, completes the ends by those of a log, and
reads the command behind `--`. `select_stack` finds the stack that is named, or that of the current folder.
`repository_stack` makes one of a single repository, for a command.
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.case import add_predecessors
from ...runner.errors import UsageError, suggestion
from ...runner.git import GitError, GitRepository
from ...runner.process.run import find_secret
from ...runner.settings import (
    checkout_root,
    load_stack,
    load_trusted_stack,
    read_overrides,
    read_variables,
    stack_of_checkout,
)
from ...runner.stack import PLACEHOLDER_COMMAND, Environment, Stack, is_plain_name
from ...store.tables import MAX_NAME_LENGTH
from ...store.vocabulary import Seeks
from ..options import BisectOptions
from .predicate import Predicate, predicate_stack, redirect_pythonpath
from .question import DEFAULT_STACK_FILE, NEWEST_LINK, REPORTS_FOLDER, BisectLog, Question

_DEFAULT_BAD_WHEN = "mismatch"


def question_of(options: BisectOptions) -> Question:
    """Return the question that the options ask.

    Raises `UsageError` where options contradict each other, or where a necessary one is missing.
    """
    _check_after(options)
    _check_secrets(options)
    if options.name is not None:
        check_name(options.name)
    if options.interactive:
        options = _person_options(options)
    log = None if options.replay is None else BisectLog.read(options.replay)
    ends = _name_ends(options, log)
    stack = override_pins(_stack(options), freeze=options.freeze, search=options.search)
    repository = _searched_repository(options, stack)
    command = None if options.predicate is None else _predicate(options, stack, repository)
    variables = read_variables(options.env)
    if command is not None:
        stack = command.replace_case(stack, repository).add_case_variables(variables)
        stack = redirect_pythonpath(stack, repository, command.words, {**os.environ, **variables})
    elif options.case is None and options.runtime_dir is None:
        raise UsageError(
            f"expected a case, found none: name a script of {stack.case.repository} with --case, or a build "
            "directory with --runtime-dir"
        )
    else:
        stack = stack.add_case_variables(variables)
    return Question(
        stack=add_predecessors(stack, options.after),
        repository=repository,
        good=ends.good,
        bad=ends.bad,
        command=command,
        also_old=ends.also_old,
        case=options.case,
        platform=options.platform,
        device=options.device,
        bad_when=options.bad_when or (None if command or options.interactive else _DEFAULT_BAD_WHEN),
        good_when=options.good_when,
        crash=options.crash or "skip",
        golden_data=options.golden_data,
        runtime_dir=options.runtime_dir,
        first_parent=options.first_parent or (log is not None and log.first_parent),
        timeout=options.timeout,
        confidence=options.confidence,
        output=options.output,
        name=options.name,
        cherry_picks=options.cherry_pick,
        overlays=options.overlay,
        adapt=options.adapt,
        skip=(*options.skip, *(log.skip if log else ())),
        path=(*options.path, *(log.paths if log else ())),
        replay_log=log,
        interactive=options.interactive,
        typed=options.typed,
        seeks=Seeks.FIX if options.find_fix else Seeks.REGRESSION,
    )


def _check_after(options: BisectOptions) -> None:
    """Raise `UsageError` where `--after` is given without a script that can run after those cases."""
    others = {"a command behind --": options.predicate, "--runtime-dir": options.runtime_dir}
    found = next((name for name, given in others.items() if given is not None), None)
    if options.after and (found is not None or options.case is None):
        raise UsageError(
            f"--after {options.after[0]}: expected a script with --case alone, which is run in its process after it, "
            f"found {found or 'no --case'}; leave --after out, or name the script"
        )


def _check_secrets(options: BisectOptions) -> None:
    """Raise `UsageError` where a text that reports and the store repeat contains the value of a secret variable."""
    texts = {
        "the command behind --": "\n".join(options.predicate or ()),
        "--case": options.case,
        "--after": "\n".join(options.after),
        "--bad-when": options.bad_when,
        "--good-when": options.good_when,
        "--env": "\n".join(options.env),
        "--name": options.name,
        "--notify": options.notify,
        "-o": None if options.output is None else str(options.output),
    }
    for where, text in texts.items():
        if text is not None and (name := find_secret(text, os.environ)) is not None:
            raise UsageError(
                f"{where}: expected no secret, found the value of {name}, which reports and the store would show; "
                f"let the command read the variable, as in sh -c './check.sh \"${name}\"'"
            )


def check_name(name: str) -> None:
    """Raise `UsageError` where a bisection cannot have this name. Folders and files have it too."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}", name):
        raise UsageError(
            f"--name {shlex.quote(name)}: expected at most {MAX_NAME_LENGTH} letters, digits, - and _, with a letter "
            "or digit first"
        )
    if name == NEWEST_LINK:
        raise UsageError(
            f"--name {name}: expected another name, for {REPORTS_FOLDER}/{name} leads to the newest report"
        )


def _person_options(options: BisectOptions) -> BisectOptions:
    """Return the options where a person judges. Raises `UsageError` where an option judges too.

    Without a case, the person chooses what to run.
    """
    by_output = {"--bad-when": options.bad_when, "--good-when": options.good_when, "--crash": options.crash}
    for name, given in by_output.items():
        if given is not None:
            raise UsageError(f"{name} {given}: expected none with --interactive, where a person says it")
    if options.predicate is None and options.case is None and options.runtime_dir is None:
        return replace(options, predicate=PLACEHOLDER_COMMAND)
    return options


@dataclass(frozen=True, kw_only=True)
class _NamedEnds:
    """The ends as the user named them. The fields are as of `Question`."""

    good: tuple[str, ...]
    bad: str
    also_old: tuple[str, ...] = ()


def _name_ends(options: BisectOptions, log: BisectLog | None) -> _NamedEnds:
    """Return the ends of the options, completed by those of a log.

    Raises `UsageError` where one is missing, or where there are too many.
    """
    olds, news = (tuple(log.olds), tuple(log.news[-1:])) if log else ((), ())
    good, bad, also_old = options.good, options.bad, tuple[str, ...]()
    if options.find_fix:
        good = good or news
        bad = bad or next(reversed(olds), None)
        also_old = tuple(sha for sha in olds if sha != bad)
    else:
        good, bad = (*good, *olds), bad or next(iter(news), None)
    if bad is None:
        raise UsageError("expected a bad end, found no --bad: name a commit where the case fails")
    if not good and options.find_fix:
        raise UsageError(
            "--find-fix: expected both ends, found no --good: name a later commit where the case passes"
        )
    if len(good) > 1 and options.find_fix:
        raise UsageError(
            f"--find-fix: expected one --good, found {', '.join(good)}: name the first known to pass again"
        )
    return _NamedEnds(good=good, bad=bad, also_old=also_old)


def _stack(options: BisectOptions) -> Stack:
    """Return the stack that was named, else that of the current folder. Raises `UsageError` without one."""
    overrides = read_overrides(options.repository)
    stack = select_stack(options.stack, overrides, by_checkout=options.predicate is None)
    if stack is not None:
        return stack
    if options.predicate is not None:
        return repository_stack(overrides)
    raise UsageError(
        "expected a stack, found no stack.toml here and no checkout of a known one: name one with --stack, or a "
        "command behind -- that judges each commit by its exit code"
    )


def _searched_repository(options: BisectOptions, stack: Stack) -> str:
    """Return the name of the repository to search. Raises `UsageError`."""
    name = options.repo or stack.searched
    if name not in stack.repositories:
        raise UsageError(f"--repo {name}: expected one of {', '.join(sorted(stack.repositories))}")
    return name


def _predicate(options: BisectOptions, stack: Stack, repository: str) -> Predicate:
    """Return the command behind `--`. Raises `UsageError` where it cannot be run, or where a case is named too."""
    if not options.predicate or not options.predicate[0]:
        raise UsageError("expected a command behind --, found nothing")
    case_options = {
        "--case": options.case,
        "--golden-data": options.golden_data,
        "--runtime-dir": options.runtime_dir,
        "--reduce": options.reduce or None,
    }
    for option, given in case_options.items():
        if given is not None:
            raise UsageError(f"expected either {option} or a command behind --, found both")
    checkout = GitRepository.open(stack.repositories[repository].path, name=repository)
    predicate = Predicate.from_words(options.predicate, here=Path.cwd(), checkout=checkout.path)
    # With another PATH, in a stack's environment, or on another machine, the program may be another one.
    is_here = options.backend == "loky" and not stack.steps and stack.environment == Environment()
    uses_own_path = is_here and not any(text.startswith("PATH=") for text in options.env)
    predicate.check_runnable(search_path=os.environ.get("PATH") if uses_own_path else None)
    return predicate


def select_stack(
    name: str | None, overrides: Mapping[str, Path], *, by_checkout: bool = True
) -> Stack | None:
    """Return the stack of this name or file. Raises `UsageError` where it cannot be used, or is not trusted.

    Without a name, `stack.toml` in the current folder counts. Without that file, and with `by_checkout`, the stack
    counts whose checkout this is. Return None where there is none of these.
    """
    if name is None and (found := Path(DEFAULT_STACK_FILE)).is_file():
        return load_trusted_stack(found, overrides=overrides)
    if name is None and by_checkout:
        name = stack_of_checkout(checkout_root(Path.cwd()))
    return None if name is None else load_stack(name, overrides=overrides)


def repository_stack(overrides: Mapping[str, Path]) -> Stack:
    """Return a stack of the one repository that is named, else of the one around the current folder.

    Raises `UsageError` where there is none, or several are named.
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
        git_folder = next((each for each in (here, *here.parents) if each.name == ".git"), None)
        if git_folder is not None:
            raise UsageError(
                f"expected a git checkout, found the inside of {git_folder}: begin in {git_folder.parent}"
            ) from error
        if "dubious ownership" in str(error):
            raise UsageError(
                f"expected a git checkout of this user around {here}, found one of another, which git refuses; if you "
                "trust it, run: git config --global --add safe.directory PATH"
            ) from error
        raise UsageError(
            f"expected a git checkout, found none around {here}: begin in one, or name a stack with --stack, or "
            "one repository with --repository NAME=PATH"
        ) from error
    return predicate_stack(root)


def override_pins(stack: Stack, *, freeze: tuple[str, ...], search: tuple[str, ...]) -> Stack:
    """Return the stack with some pins frozen or searched, whatever its file says. Raises `UsageError`."""
    pins = dict(stack.pins)
    for option, names in (("--freeze", freeze), ("--search", search)):
        for name in names:
            if name not in pins:
                known = f"one of the pins {', '.join(sorted(pins))}" if pins else "no pin: the stack has none"
                raise UsageError(f"{option} {name}: expected {known}{suggestion(name, sorted(pins))}")
            if name in freeze and name in search:
                raise UsageError(f"--freeze {name} --search {name}: expected one of them, found both")
            pins[name] = pins[name].model_copy(update={"search": option == "--search"})
    return stack.model_copy(update={"pins": pins})
