"""The option that says which store a command opens."""

from dataclass_click import option

STORE_VARIABLE = "PRECISION_BISECT_STORE"
"""The environment variable that `--store` defaults to."""

STORE = option(
    "--store",
    metavar="URL",
    envvar=STORE_VARIABLE,
    help="Use this database of results, SQLite or PostgreSQL; the default is one SQLite file for each user.",
)
