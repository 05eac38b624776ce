"""The options that all programs share: which store, how much is printed, `--version`."""

from typing import Any

import click

from .option_groups import OptionGroup, option

STORE_VARIABLE = "PRECISION_BISECT_STORE"
"""The environment variable that `--store` defaults to."""

STORE = option(
    "--store",
    group=OptionGroup.RESOURCES,
    metavar="URL",
    envvar=STORE_VARIABLE,
    help="Use this database of results, SQLite or PostgreSQL; the default is one SQLite file for each user.",
)
QUIET = option(
    "-q", "--quiet", group=OptionGroup.OUTPUT, is_flag=True, help="Print the result and errors, no progress."
)
VERBOSE = option("-v", "--verbose", group=OptionGroup.OUTPUT, is_flag=True, help="Print every run too.")
JSON = option("--json", group=OptionGroup.OUTPUT, is_flag=True, help="Print the result as JSON.")


def version_option() -> Any:
    """`--version` of a program."""
    return click.version_option(package_name="precision-bisect")
