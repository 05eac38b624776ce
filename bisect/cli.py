"""`bisect-precision`: each command parses its options into their model and calls one function, which prints."""

import sys
from dataclasses import replace

import click
from dataclass_click import dataclass_click  # pyright: ignore[reportUnknownVariableType]

from ..runner.stack.configured_command import ConfiguredCommand
from ..store.options import version_option
from .commands.command_line.bisect_options import BisectOptions
from .commands.command_line.main_group import PREDICATE, TYPED, MainGroup
from .commands.command_line.options import (
    AdaptOptions,
    DemoOptions,
    DoctorOptions,
    HistoryOptions,
    NightlyOptions,
    ReportOptions,
    ServeOptions,
)
from .commands.command_line.queue_options import (
    CancelOptions,
    StatusOptions,
    SubmitOptions,
    TokenOptions,
    WatchOptions,
    WorkerOptions,
)
from .commands.command_line.slow_start import SlowStart
from .commands.command_line.submit_command import SubmitCommand


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
        bisect-precision --good A --bad B -- COMMAND    (exit code: 0 good, 1-124 bad, 125 skip)
    """
    if ctx.invoked_subcommand is not None:
        return
    options = replace(options, predicate=ctx.meta.get(PREDICATE), typed=ctx.meta[TYPED])
    if options.asks_nothing:
        click.echo(ctx.get_help())
        ctx.exit(2)
    with SlowStart(quiet=options.quiet or not sys.stderr.isatty()) as start:
        from .commands.bisect import bisect

        code = bisect(options, start)
    ctx.exit(code)


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Make a small stack with a planted regression in DIRECTORY."""
    from .commands.demo import make_demo_stack

    sys.exit(make_demo_stack(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(HistoryOptions)
def history(options: HistoryOptions) -> None:
    """List past bisections, or show NAME with all its probes."""
    from .commands.history import show_history

    sys.exit(show_history(options.name, store=options.store, as_json=options.as_json))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(ReportOptions)
def report(options: ReportOptions) -> None:
    """Write a report again, or a site of all.

    NAME is a bisection's, as `history` lists it.
    """
    if options.html is not None:
        if options.name is not None or options.output is not None or options.issue or options.as_json:
            raise click.UsageError("expected --html alone: the site shows all bisections")
        from .commands.service.site import write_html

        sys.exit(write_html(options.html, store=options.store))
    if options.name is None:
        raise click.UsageError(
            "expected the NAME of a bisection, or --html DIR; see bisect-precision history"
        )
    if [options.issue, options.as_json, options.output is not None].count(True) > 1:
        raise click.UsageError(
            "expected one of --issue, --json and -o DIR: the first two print, and write nothing"
        )
    if options.issue:
        from .commands.history import print_issue

        sys.exit(print_issue(options.name, store=options.store))
    if options.as_json:
        from .commands.history import show_history

        sys.exit(show_history(options.name, store=options.store, as_json=True))
    from .commands.history import write_report

    sys.exit(write_report(options.name, output=options.output, store=options.store))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Show the site live, from a store that is only read but for the queue, with --work."""
    from .commands.service.site import serve as serve_site

    sys.exit(serve_site(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(AdaptOptions)
def adapt(options: AdaptOptions) -> None:
    """Print what the commit REV renames, for --adapt.

    \b
        bisect-precision adapt REV > renames.toml
        bisect-precision --adapt renames.toml ...

    Looked at are the names of Python files alone. Exit status: 0 something is proposed, 1 nothing is.
    """
    from .commands.adapt import propose_renames

    sys.exit(
        propose_renames(
            options.revision,
            repository=options.repo,
            stack=options.stack,
            repositories=options.repository,
        )
    )


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Say what is missing on this machine before anything runs."""
    from .commands.doctor import examine

    sys.exit(
        examine(
            options.stack,
            repositories=options.repository,
            case=options.case,
            revisions=options.at,
            quiet=options.quiet,
            as_json=options.as_json,
        )
    )


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(NightlyOptions)
def nightly(options: NightlyOptions) -> None:
    """Run the matrix of FILE, bisect what regressed, keep incidents.

    Exit status: 0 nothing fails, 7 a case fails that passed before, 8 cases fail as they did before, 9 a case could not
    be run, or nothing was judged.
    """
    from .commands.nightly import keep_found, run_nightly
    from .nightly.outcome import FailOn

    if options.keep:
        sys.exit(keep_found(options))
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
    from .commands.service.submit import submit as submit_bisection

    sys.exit(submit_bisection(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(StatusOptions)
def status(options: StatusOptions) -> None:
    """Show the queue, or the submission ID with the end of its log."""
    from .commands.service.follow import status as show_status

    sys.exit(show_status(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(CancelOptions)
def cancel(options: CancelOptions) -> None:
    """Take the submission ID off the queue, or interrupt it where it runs."""
    from .commands.service.follow import cancel as cancel_submission

    sys.exit(cancel_submission(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(WatchOptions)
def watch(options: WatchOptions) -> None:
    """Follow the submission ID to its end; exit as its bisection does."""
    from .commands.service.follow import watch as watch_submission

    sys.exit(watch_submission(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(WorkerOptions)
def worker(options: WorkerOptions) -> None:
    """Run what is submitted, one bisection after the other.

    Ctrl-C stops the one that runs and hands it back to the queue, where a worker of the same home goes on with it.
    """
    from .commands.service.worker import work

    sys.exit(work(options))


@main.command(cls=ConfiguredCommand)
@version_option()
@dataclass_click(TokenOptions)
def token(options: TokenOptions) -> None:
    """Make a token with which USER may submit to a server.

    It is printed once. Only its digest is kept.
    """
    from .commands.service.token import token as make_token

    sys.exit(make_token(options))
