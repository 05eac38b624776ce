"""`bisect-precision`: parse, call one library function, print."""

import sys
from pathlib import Path
from typing import Any

import click

from ..runner.process.duration import DurationOption

_PREDICATE = "precision_bisect.predicate"

_STORE = click.option(
    "--store",
    metavar="URL",
    envvar="PRECISION_BISECT_STORE",
    help="Database of results, SQLite or PostgreSQL; one SQLite file a user by default.",
)


class _MainGroup(click.Group):
    """A group whose own call is the main job, with git's `-- COMMAND` for a predicate."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            head = args[: args.index("--")]
            if not any(word in self.commands for word in head):
                ctx.meta[_PREDICATE] = tuple(args[len(head) + 1 :])
                args = head
        return super().parse_args(ctx, args)


@click.group(
    cls=_MainGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--good", metavar="REV", help="A commit where the case passes; looked for behind --bad by default."
)
@click.option("--bad", metavar="REV", help="A later commit where it fails.")
@click.option("--stack", metavar="NAME|FILE", help="Stack file, or the name of one that comes with the tool.")
@click.option(
    "--repository",
    "overrides",
    metavar="NAME=PATH",
    multiple=True,
    help="Where a checkout of the stack lies.",
)
@click.option("--repo", "repo", metavar="NAME", help="Search this repository of the stack.")
@click.option(
    "--freeze", metavar="PIN", multiple=True, help="Hold this pin at what the bad end says, at every commit."
)
@click.option("--search", metavar="PIN", multiple=True, help="Look into this pin where the culprit moves it.")
@click.option(
    "--case", metavar="SCRIPT", help="The case, as a path in the case repository, with its arguments."
)
@click.option("-p", "--platform", metavar="NAME", help="Target; the stack's first one by default.")
@click.option("-d", "--device", type=int, default=0, show_default=True, help="Device number.")
@click.option(
    "--bad-when", metavar="WHAT", help="A verdict, signature:TEXT or regex:PATTERN.  [default: mismatch]"
)
@click.option(
    "--golden-data", type=click.Path(path_type=Path), help="Frozen data; captured at the good end by default."
)
@click.option(
    "--runtime-dir",
    type=click.Path(path_type=Path),
    help="With --repo: run this build directory, frozen, in place of compiling the case.",
)
@click.option(
    "--gallop",
    type=click.Choice(["commits", "days"]),
    help="Without --good: look for it 1, 2, 4, ... commits (or days) back.  [default: commits]",
)
@click.option(
    "--find-fix",
    is_flag=True,
    help="Find the commit that made it pass again: --bad is the older end, --good the later one.",
)
@click.option(
    "--cherry-pick",
    metavar="REV@A..B",
    multiple=True,
    help="Make the change of REV on top of the commits of A..B, which do not build without.",
)
@click.option("--first-parent", is_flag=True, help="Do not look into branches that were merged.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for one run; ten times the ends' by default.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=0.99,
    show_default=True,
    help="Asked before a culprit is named.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the report.")
@_STORE
@click.option(
    "--resume",
    metavar="NAME",
    is_flag=False,
    flag_value="",
    help="Go on with a bisection that was stopped; the newest by default.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs at once, a slot each.",
)
@click.option(
    "--backend",
    type=click.Choice(["loky", "dask", "ray"]),
    default="loky",
    show_default=True,
    help="Workers: processes here, or a cluster ($DASK_SCHEDULER_ADDRESS, $RAY_ADDRESS).",
)
@click.option(
    "--budget",
    type=DurationOption(),
    metavar="TIME",
    help="Stop after this time, such as 20m or 6h, with what is known.",
)
@click.option(
    "--no-localize", is_flag=True, help="Leave out the search for the first wrong tensor at the end."
)
@click.option("--reduce", is_flag=True, help="At the end, reduce the culprit's build to what still fails.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the plan.")
@click.pass_context
def main(ctx: click.Context, **options: Any) -> None:
    """Find the commit that made a kernel's numbers go wrong.

    \b
        bisect-precision --good A --bad B --stack STACK --case CASE
        bisect-precision --good A --bad B -- COMMAND    (exit code: 0 good, 125 skip, 1-127 bad)
    """
    if ctx.invoked_subcommand is None:
        if (
            ctx.meta.get(_PREDICATE) is None
            and options["good"] is None
            and options["bad"] is None
            and options["resume"] is None
        ):
            click.echo(ctx.get_help())
            ctx.exit(2)
        from .commands.bisect import run_main_job

        ctx.exit(run_main_job(predicate=ctx.meta.get(_PREDICATE), **options))


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--scenario", default="rounding", show_default=True, help="What goes wrong.")
@click.option(
    "--commits", default=60, show_default=True, type=click.IntRange(min=1), help="Between good and bad."
)
@click.option("--seed", default=0, show_default=True, help="Decides the histories.")
def demo(directory: Path, scenario: str, commits: int, seed: int) -> None:
    """Make a small stack with a planted regression in DIRECTORY."""
    from .commands.demo import make

    sys.exit(make(directory, scenario=scenario, commits=commits, seed=seed))


@main.command()
@click.argument("name", required=False)
@_STORE
def history(name: str | None, store: str | None) -> None:
    """List past bisections, or show NAME with all its probes."""
    from .commands.history import show_history

    sys.exit(show_history(name, store=store))


@main.command()
@click.argument("name", required=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder; the bisection's own by default."
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write pages of all that the store holds to DIR, in place of one report.",
)
@_STORE
def report(name: str | None, output: Path | None, html: Path | None, store: str | None) -> None:
    """Write the report of bisection NAME again, or a site of everything, from the store."""
    if html is not None:
        if name is not None or output is not None:
            raise click.UsageError("expected --html alone: the site shows all bisections")
        from .commands.site import write_html

        sys.exit(write_html(html, store=store))
    if name is None:
        raise click.UsageError(
            "expected the NAME of a bisection, or --html DIR; see bisect-precision history"
        )
    from .commands.history import write_report

    sys.exit(write_report(name, output=output, store=store))


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@_STORE
def serve(host: str, port: int, store: str | None) -> None:
    """Show the site of `report --html` live from the store, which is only read."""
    from .commands.site import serve as serve_site

    sys.exit(serve_site(store=store, host=host, port=port))


@main.command()
@click.option("--stack", metavar="NAME|FILE", required=True, help="Stack file, or the name of one.")
@click.option(
    "--repository",
    "overrides",
    metavar="NAME=PATH",
    multiple=True,
    help="Where a checkout of the stack lies.",
)
def doctor(stack: str, overrides: tuple[str, ...]) -> None:
    """Say what is missing on this machine before anything runs."""
    from .commands.doctor import examine

    sys.exit(examine(stack, overrides=overrides))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@_STORE
@click.option(
    "--budget",
    type=DurationOption(),
    metavar="TIME",
    help="No run starts after this time, such as 90m or 6h.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs of bisections at once, a slot each; the matrix is run by one.",
)
def nightly(file: Path, store: str | None, budget: float | None, jobs: int) -> None:
    """Run the matrix of FILE, bisect what regressed, keep incidents. Exit code 7: a case that passed fails."""
    from .commands.nightly import run_nightly

    sys.exit(run_nightly(file, store=store, budget=budget, jobs=jobs))
