"""The command line of `bisect-precision`. Each command parses its options into their model and calls one function.

`MainGroup` bisects where no subcommand is named, and takes the words behind `--` as a predicate. `SubmitCommand` takes
the words of another command. `SlowStart` prints the steps of a start that takes long. `parse_words` gives the options
of a bisection outside of the program's own command line. `run_command` turns errors into exit codes.

Nothing heavy is imported before a command needs it, so that `--help` answers at once.
"""

import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
from click.core import ParameterSource
from dataclass_click import dataclass_click  # pyright: ignore[reportUnknownVariableType]
from typing_extensions import override

from ..runner.cli_options import (
    ConfiguredCommand,
    print_error,
    print_json_error,
    print_text,
    version_option,
)
from ..runner.errors import UserError, reason, suggestion
from ..runner.process.entry import INTERRUPTED
from ..runner.process.signals import interruptible_work, outlive_readers
from ..store.vocabulary import StoreError, one_line
from .options import (
    AdaptOptions,
    BisectOptions,
    CancelOptions,
    DemoOptions,
    DoctorOptions,
    ExplainOptions,
    HistoryOptions,
    NightlyOptions,
    ReportOptions,
    ServeOptions,
    StatusOptions,
    SubmitOptions,
    TokenOptions,
    TrustOptions,
    WorkerOptions,
)

PREDICATE_KEY = "precision_bisect.predicate"
"""The context's `meta` holds the words behind `--` under this key."""
TYPED_KEY = "precision_bisect.typed"
"""The context's `meta` holds all words of the command under this key."""


class MainGroup(click.Group, ConfiguredCommand):
    """Takes the words behind `--` as a predicate, as git does."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the words behind `--`, unless they belong to a subcommand."""
        ctx.meta[TYPED_KEY] = tuple(args)
        if "--" in args:
            head = args[: args.index("--")]
            if not self._names_command(ctx, head):
                ctx.meta[PREDICATE_KEY] = tuple(args[len(head) + 1 :])
                args = head
        return super().parse_args(ctx, args)

    @override
    def is_configured(self, ctx: click.Context, args: list[str]) -> bool:
        """Return whether settings are read here. A subcommand reads its own settings."""
        return super().is_configured(ctx, args) and not self._names_command(ctx, args)

    def _names_command(self, ctx: click.Context, words: list[str]) -> bool:
        """Return whether the first word that belongs to no option is a subcommand."""
        parser = self.make_parser(ctx)
        try:
            _, rest, _ = parser.parse_args(list(words))
        except click.UsageError:
            return False  # the error is reported when the words are really parsed
        return bool(rest) and rest[0] in self.commands

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named subcommand. Fail with a suggestion where there is none of that name."""
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            ctx.fail(_unknown_command_message(args, sorted(self.commands)))
        return super().resolve_command(ctx, args)


def _unknown_command_message(words: list[str], commands: list[str]) -> str:
    word = words[0]
    if hint := suggestion(word, commands):
        return f"expected a subcommand, found {word!r}{hint}"
    if "/" in word or Path(word).exists() or shutil.which(word) is not None:
        hint = f"a command that judges commits stands behind --: -- {shlex.join(words)}"
        return f"expected a subcommand, found {word!r}; {hint}"
    return f"expected a subcommand ({', '.join(commands)}), found {word!r}"


_SILENT_SECONDS = 2.0
"""A start that takes longer than this many seconds prints its steps. A quicker one prints nothing."""


class SlowStart:
    """Prints the steps before the first line of a bisection, once these have taken long.

    They may take long on a busy machine, or where a repository is large.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._step = "loading the program"
        self._is_slow = False
        self._is_over = quiet
        self._lock = threading.Lock()
        self._timer = threading.Timer(_SILENT_SECONDS, self.show_steps)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def show_steps(self) -> None:
        """Print the present step, and each step from now on."""
        with self._lock:
            self._is_slow = True
            self._print_step()

    def step(self, text: str) -> None:
        """Note that a step begins."""
        with self._lock:
            self._step = text
            self._print_step()

    def end(self) -> None:
        """Print nothing any more, because others show what follows."""
        with self._lock:
            self._is_over = True
        self._timer.cancel()

    def _print_step(self) -> None:
        if self._is_slow and not self._is_over:
            print_text(f"{self._step} ...", err=True)


class SubmitCommand(ConfiguredCommand):
    """Takes its own options out of the words. All others, and all behind `--`, become its argument `words`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.ignore_unknown_options = True

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        if not ctx.resilient_parsing:
            ctx.params["words"] = (*ctx.params["words"], *args[end:])
        return rest


ERROR = 1
"""The exit code of any error that has no code of its own."""


def run_command(function: Callable[[], int]) -> int:
    """Call the body of a command. Return its exit code.

    An error is printed on standard error in one line, and has its own exit code. With `--json`, an error or an
    interrupt is also a document on standard output. The text of an interrupt is for that document alone.
    """
    outlive_readers()
    try:
        with interruptible_work():
            return function()
    except UserError as error:
        return _print_error(str(error), error.exit_code, is_answered=error.is_answered)
    except StoreError as error:
        return _print_error(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{where}expected files that can be read and written: {reason(error)}")
    except KeyboardInterrupt as interrupt:
        if _asks_json():
            print_json_error(one_line(str(interrupt) or "interrupted"), INTERRUPTED)
        return INTERRUPTED
    except Exception as error:
        # The module is imported late, because only a command that has imported SQLAlchemy can fail with its errors.
        from ..store.database import database_message

        message = database_message(error)
        if message is None:
            if _asks_json():
                print_json_error(one_line(f"the program itself failed: {error!r}"), ERROR)
            raise
        return _print_error(f"expected a store that can be read and written, found: {message}")


def _print_error(message: str, exit_code: int = ERROR, *, is_answered: bool = False) -> int:
    # A message may repeat text of other people, such as a commit's name in a log for `--replay`.
    return print_error(one_line(message), exit_code, as_json=_asks_json() and not is_answered)


def _asks_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.params.get("as_json", False)


@click.group(
    cls=MainGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@version_option()
@dataclass_click(BisectOptions)
@click.pass_context
def main(ctx: click.Context, options: BisectOptions) -> None:
    """Find the commit that made a kernel's numbers go wrong.

    \b
        bisect-precision --good A --bad B --stack STACK --case CASE
        bisect-precision --good A --bad B -- COMMAND

    COMMAND exits with 0 if a commit is good, and with 125 to skip it. A commit is bad if it fails as B does.
    """
    if ctx.invoked_subcommand is not None:
        return
    options = replace(options, predicate=ctx.meta.get(PREDICATE_KEY), typed=ctx.meta[TYPED_KEY])
    if options.lacks_question and options.as_json:
        raise click.UsageError("expected a question, found none: name --good and --bad")
    if options.lacks_question:
        click.echo(ctx.get_help())
        ctx.exit(2)
    with SlowStart(quiet=options.quiet or not sys.stderr.isatty()) as start:
        from .bisect_command import bisect

        code = bisect(options, start)
    ctx.exit(code)


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Make a small stack with a planted regression in DIRECTORY."""
    from .commands import make_demo_stack

    sys.exit(make_demo_stack(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(HistoryOptions)
def history(options: HistoryOptions) -> None:
    """List past bisections, or show NAME with all its probes."""
    if options.name is None:
        from .listing import print_history

        sys.exit(print_history(options.store, as_json=options.as_json))
    from .commands import show_bisection

    sys.exit(show_bisection(options.name, store=options.store, as_json=options.as_json))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(ReportOptions)
def report(options: ReportOptions) -> None:
    """Write a report again, or a site of all.

    NAME is a bisection's, as `history` lists it; without it, the newest of this checkout counts.
    """
    if options.html is not None:
        if options.name is not None or options.output is not None or options.issue or options.as_json:
            raise click.UsageError("expected --html alone: the site shows all bisections")
        from .pages.serve import write_html

        sys.exit(write_html(options.html, store=options.store))
    if [options.issue, options.as_json, options.output is not None].count(True) > 1:
        raise click.UsageError(
            "expected one of --issue, --json and -o DIR: the first two print, and write nothing"
        )
    if options.issue:
        from .commands import print_issue

        sys.exit(print_issue(options.name, store=options.store))
    if options.as_json:
        from .commands import show_bisection

        sys.exit(show_bisection(options.name, store=options.store, as_json=True))
    from .commands import write_report

    sys.exit(write_report(options.name, output=options.output, store=options.store))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve the site from the store. The store is only read; with --work, queued bisections run too."""
    from .pages.serve import serve as serve_site

    sys.exit(serve_site(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(AdaptOptions)
def adapt(options: AdaptOptions) -> None:
    """Print what the commit REV renames, for --adapt.

    \b
        bisect-precision adapt REV > renames.toml
        bisect-precision --adapt renames.toml ...

    Only the names of Python files are compared. Exit status: 0 if a rename is proposed, 1 if none is.
    """
    from .commands import propose_renames

    sys.exit(propose_renames(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Say what is missing on this machine before anything runs."""
    from .commands import examine

    sys.exit(examine(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(ExplainOptions)
def explain(options: ExplainOptions) -> None:
    """Execute the dumped IR of BUILD, and say which pass makes it wrong.

    BUILD is a build directory with passes_dump/ and data/, or a folder of dumps. No good commit is needed, and nothing
    is compiled or run. Exit status: 0 the cause is shown, 3 the IR is right after every pass, 6 not decided.
    """
    from .explain_command import explain_build

    sys.exit(explain_build(options))


@main.command()
@version_option()
@dataclass_click(TrustOptions)
def trust(options: TrustOptions) -> None:
    """Let a stack or settings file of a checkout decide what runs.

    Without FILE, trust each file that counts in this folder without being typed. A file that changes has to be trusted
    again.
    """
    from .commands import trust_files

    sys.exit(trust_files(options.file))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(NightlyOptions)
def nightly(options: NightlyOptions) -> None:
    """Run the matrix of FILE, bisect what regressed, keep incidents.

    Exit status: 0 nothing fails, 7 a case is newly broken, 8 cases fail and none is newly broken. 9 says that a case
    could not be run, or that nothing was judged.
    """
    from .nightly.night import run_keep, run_nightly
    from .nightly.night_report import FailOn

    if options.keep:
        sys.exit(run_keep(options))
    sys.exit(
        run_nightly(
            options.file,
            store=options.store,
            budget=options.budget,
            jobs=options.jobs,
            submit=options.submit,
            fail_on=FailOn(options.fail_on),
            quiet=options.quiet,
            as_json=options.as_json,
        )
    )


@main.command(cls=SubmitCommand)
@version_option()
@dataclass_click(SubmitOptions)
def submit(options: SubmitOptions) -> None:
    """Put a bisection on the queue of the store.

    All other words are those of `bisect-precision` itself. The question is checked now, and its ends are held; a
    worker runs it in this folder.
    """
    from .queue_client import submit as submit_bisection

    sys.exit(submit_bisection(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(StatusOptions)
def status(options: StatusOptions) -> None:
    """Show the queue, or the submission ID with the end of its log; with --follow until it is over."""
    if options.follow or options.service is not None:
        from .queue_client import status as show_status

        sys.exit(show_status(options))
    from .listing import print_queue

    sys.exit(print_queue(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(CancelOptions)
def cancel(options: CancelOptions) -> None:
    """Take the submission ID off the queue, or interrupt it where it runs."""
    from .queue_client import cancel as cancel_submission

    sys.exit(cancel_submission(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(WorkerOptions)
def worker(options: WorkerOptions) -> None:
    """Run what is submitted, one bisection after the other.

    Ctrl-C stops the one that runs and hands it back to the queue, where a worker of the same home goes on with it.
    """
    from .queue_worker import work

    sys.exit(work(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(TokenOptions)
def token(options: TokenOptions) -> None:
    """Make a token with which USER may submit to a server.

    It is printed once. Only its digest is kept.
    """
    from .queue_client import token as make_token

    sys.exit(make_token(options))


@dataclass(frozen=True, kw_only=True)
class ParsedWords:
    """Options from their words."""

    options: BisectOptions
    typed: frozenset[str]
    """The names of the fields that were typed. The others have defaults."""


def parse_words(words: Sequence[str], *, with_defaults: bool = False) -> ParsedWords:
    """Return the options of a bisection that the words of `bisect-precision` stand for.

    `with_defaults` adds the defaults of the checkout around the current folder. Raises `click.UsageError`.
    """
    head = list(words)
    predicate: tuple[str, ...] | None = None
    if "--" in head:
        end = head.index("--")
        head, predicate = head[:end], tuple(head[end + 1 :])
    context = (_DEFAULTS_PARSER if with_defaults else _BARE_PARSER).make_context("bisect-precision", head)
    options = replace(BisectOptions(**context.params), predicate=predicate, typed=tuple(words))
    typed = frozenset(
        name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
    return ParsedWords(options=options, typed=typed)


@click.command(cls=ConfiguredCommand, add_help_option=False)
@dataclass_click(BisectOptions)
def _DEFAULTS_PARSER(options: BisectOptions) -> None:  # noqa: N802
    """Do nothing. The command only parses words."""


@click.command(add_help_option=False)
@dataclass_click(BisectOptions)
def _BARE_PARSER(options: BisectOptions) -> None:  # noqa: N802
    """Do nothing. The command only parses words."""


if __name__ == "__main__":
    main()
