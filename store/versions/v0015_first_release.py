"""The schema of the first release: a new store gets all of it, and an older one the tables and columns that it lacks.

A store of a prerelease schema, 0001 to 0014, has only some of these tables and columns. `FILLS` sets values that depend
on existing rows. The tables are written down as the release had them, because `tables.py` changes later.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import TypeEngine

revision = "0015"
down_revision = None

RELEASE = sa.MetaData()
Kind = type[TypeEngine[Any]] | TypeEngine[Any]
STRING_64, STRING_32, STRING_16 = sa.String(64), sa.String(32), sa.String(16)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the tables and columns that a store lacks."""
    connection = op.get_bind()
    found = sa.MetaData()
    found.reflect(connection)
    RELEASE.create_all(connection)
    added = [
        column
        for name, earlier in found.tables.items()
        if name in RELEASE.tables
        for column in RELEASE.tables[name].columns
        if column.name not in earlier.columns
    ]
    for column in added:
        _add_column(column)
    for name, fill in FILLS.items():
        if name in map(str, added):
            fill()
    if "artifacts" in found.tables and not isinstance(found.tables["artifacts"].c.bytes.type, sa.BigInteger):
        with op.batch_alter_table("artifacts") as batch:
            batch.alter_column("bytes", type_=sa.BigInteger(), existing_nullable=False)


def _add_column(column: sa.Column[Any]) -> None:
    """Add a column without copying its table, because other tables may refer to it.

    SQLite requires the foreign key inside the column definition.
    """
    words = str(CreateColumn(column).compile(dialect=op.get_bind().dialect))
    for key in column.foreign_keys:
        words += f" REFERENCES {key.column.table.name} ({key.column.name})"
    op.execute(f"ALTER TABLE {column.table.name} ADD COLUMN {words}")


def _fill_fix_problems() -> None:
    """Mark recovered regressions that have no fixing commit, so that no new search for one starts."""
    op.execute(
        "UPDATE regressions SET fix_problem = 'an earlier version looked for the fix, and named none'"
        " WHERE recovered_night_id IS NOT NULL AND fixed_by IS NULL"
    )


def _fill_verdict_sources() -> None:
    """Derive the source of each verdict from its signature."""
    probes = RELEASE.tables["probes"]
    for source, is_of_source in (
        ("exit_code", probes.c.signature.startswith("exit code ")),
        ("person", probes.c.signature == "judged by a person"),
        ("patch_conflict", probes.c.signature.startswith("cherry-pick: ")),
    ):
        op.execute(probes.update().where(is_of_source).values(verdict_source=source))


def _clear_lacking() -> None:
    """Clear `lacking`, because the old texts name no machine. The next look at the queue writes them again."""
    op.execute(RELEASE.tables["submissions"].update().values(lacking=None))


FILLS = {
    "regressions.fix_problem": _fill_fix_problems,
    "probes.verdict_source": _fill_verdict_sources,
    "submissions.lacking_host": _clear_lacking,
}
"""Maps each `table.column` to the function that runs after the migration adds that column."""


def table(name: str, *rest: sa.Column[Any] | sa.UniqueConstraint) -> None:
    """Define a table of the release."""
    sa.Table(name, RELEASE, sa.Column("id", sa.Integer, primary_key=True), *rest)


def column(
    name: str, kind: Kind, default: str | None = None, *, unique: bool = False, index: bool = False
) -> sa.Column[Any]:
    """Define a NOT NULL column."""
    return sa.Column(
        name, kind, nullable=False, server_default=default, unique=unique or None, index=index or None
    )


def optional_column(name: str, kind: Kind) -> sa.Column[Any]:
    """Define a column that may be empty."""
    return sa.Column(name, kind)


def reference_column(
    name: str, target: str, *, optional: bool = False, index: bool = False
) -> sa.Column[Any]:
    """Define a column with the id of a row of another table."""
    return sa.Column(name, sa.Integer, sa.ForeignKey(f"{target}.id"), nullable=optional, index=index or None)


table(
    "bisections",
    column("name", STRING_64, unique=True),
    column("created", TIME),
    optional_column("finished", TIME),
    column("repository", sa.String),
    column("good", STRING_64),
    column("bad", STRING_64),
    column("request", sa.JSON),
    optional_column("golden", STRING_64),
    optional_column("outcome", STRING_32),
    optional_column("conclusion", sa.JSON),
)
table(
    "builds",
    column("key", STRING_64, unique=True),
    column("created", TIME),
    column("seconds", sa.Double),
    column("steps", sa.JSON),
)
table(
    "commits",
    column("repository", sa.String),
    column("sha", STRING_64, index=True),
    column("parents", sa.JSON),
    column("author", sa.String),
    column("email", sa.String),
    column("date", TIME),
    column("subject", sa.Text),
    column("files", sa.JSON),
    sa.UniqueConstraint("repository", "sha"),
)
table(
    "environments",
    column("fingerprint", STRING_64, unique=True),
    column("details", sa.JSON),
)
table(
    "notices",
    reference_column("bisection_id", "bisections", index=True),
    column("created", TIME),
    column("text", sa.Text),
)
table(
    "stages",
    reference_column("bisection_id", "bisections", index=True),
    column("ordinal", sa.Integer),
    column("repository", sa.String),
    column("good", STRING_64),
    column("bad", STRING_64),
    column("held", sa.JSON),
    column("seeks", STRING_32, "regression"),
    optional_column("old_content", STRING_64),
    sa.UniqueConstraint("bisection_id", "ordinal"),
)
table(
    "candidates",
    reference_column("stage_id", "stages", index=True),
    column("ordinal", sa.Integer),
    reference_column("commit_id", "commits"),
    reference_column("representative_id", "commits", optional=True),
    optional_column("content", STRING_64),
    sa.UniqueConstraint("stage_id", "ordinal"),
)
table(
    "probes",
    reference_column("bisection_id", "bisections", index=True),
    reference_column("stage_id", "stages", index=True),
    column("ordinal", sa.Integer),
    column("phase", STRING_32),
    column("repository", sa.String),
    column("commit", STRING_64, index=True),
    column("revisions", sa.JSON),
    column("content", STRING_64),
    column("run", sa.Integer),
    column("attempt", sa.Integer),
    column("state", STRING_32),
    column("started", TIME),
    optional_column("finished", TIME),
    optional_column("verdict", STRING_32),
    optional_column("judgement", STRING_32),
    optional_column("signature", sa.Text),
    optional_column("metrics", sa.JSON),
    optional_column("exit_code", sa.Integer),
    reference_column("build_id", "builds", optional=True),
    optional_column("build_source", STRING_32),
    optional_column("build_seconds", sa.Double),
    optional_column("run_seconds", sa.Double),
    reference_column("environment_id", "environments", optional=True),
    optional_column("slot", sa.Integer),
    optional_column("host", sa.String),
    optional_column("command", sa.JSON),
    optional_column("reused_id", sa.Integer),
    optional_column("symptoms", sa.JSON),
    optional_column("likeness", sa.Double),
    column("verdict_source", STRING_32, "output"),
    sa.UniqueConstraint("bisection_id", "content", "run"),
    sa.UniqueConstraint("bisection_id", "ordinal"),
)
table(
    "artifacts",
    reference_column("probe_id", "probes", index=True),
    column("kind", STRING_32),
    column("path", sa.Text),
    column("bytes", sa.BigInteger),
)
table(
    "evidence",
    reference_column("probe_id", "probes", index=True),
    column("ordinal", sa.Integer),
    column("stream", STRING_16),
    column("line", sa.Integer),
    column("text", sa.Text),
    column("why", sa.Text),
)
table(
    "cells",
    column("job", STRING_64),
    column("branch", sa.String),
    column("case", sa.String),
    column("platform", STRING_64),
    column("tolerance", STRING_64),
    sa.UniqueConstraint("job", "branch", "case", "platform", "tolerance"),
)
table(
    "nights",
    column("job", STRING_64),
    column("ordinal", sa.Integer),
    column("started", TIME),
    optional_column("finished", TIME),
    column("attempts", sa.Integer),
    column("heads", sa.JSON),
    column("host", sa.String),
    optional_column("summary", sa.JSON),
    sa.UniqueConstraint("job", "ordinal"),
)
table(
    "case_runs",
    reference_column("night_id", "nights", index=True),
    reference_column("cell_id", "cells", index=True),
    column("run", sa.Integer),
    column("started", TIME),
    column("finished", TIME),
    column("commit", STRING_64, index=True),
    column("revisions", sa.JSON),
    column("content", STRING_64, index=True),
    column("verdict", STRING_32),
    optional_column("signature", sa.Text),
    column("metrics", sa.JSON),
    column("evidence", sa.JSON),
    column("device", sa.Integer),
    column("host", sa.String),
    column("build_source", STRING_32),
    column("build_seconds", sa.Double),
    column("run_seconds", sa.Double),
    reference_column("environment_id", "environments"),
    column("log", sa.Text),
    sa.UniqueConstraint("night_id", "cell_id", "run"),
)
table(
    "incidents",
    column("job", STRING_64),
    column("ordinal", sa.Integer),
    column("repository", sa.String),
    column("culprit", STRING_64),
    column("subject", sa.Text),
    optional_column("confidence", sa.Double),
    reference_column("bisection_id", "bisections"),
    reference_column("opened_night_id", "nights", index=True),
    reference_column("closed_night_id", "nights", optional=True, index=True),
    optional_column("fixed_by", STRING_64),
    optional_column("reduction", sa.Text),
    sa.UniqueConstraint("job", "ordinal"),
)
table(
    "hook_calls",
    reference_column("night_id", "nights", index=True),
    reference_column("incident_id", "incidents"),
    column("event", STRING_16),
    column("called", TIME),
    column("exit_code", sa.Integer),
)
table(
    "regressions",
    reference_column("cell_id", "cells", index=True),
    reference_column("opened_night_id", "nights", index=True),
    column("last_good", STRING_64),
    column("first_bad", STRING_64),
    column("bad_when", sa.String),
    reference_column("bisection_id", "bisections", optional=True),
    optional_column("problem", sa.Text),
    reference_column("incident_id", "incidents", optional=True, index=True),
    reference_column("recovered_night_id", "nights", optional=True),
    column("last_bad", STRING_64),
    optional_column("recovered_at", STRING_64),
    optional_column("fixed_by", STRING_64),
    reference_column("fix_bisection_id", "bisections", optional=True),
    optional_column("fix_problem", sa.Text),
)
table(
    "case_results",
    reference_column("night_id", "nights", index=True),
    reference_column("cell_id", "cells", index=True),
    column("status", STRING_32),
    column("commit", STRING_64),
    optional_column("content", STRING_64),
    column("runs", sa.Integer),
    column("failures", sa.Integer),
    optional_column("verdict", STRING_32),
    optional_column("signature", sa.Text),
    column("message", sa.Text),
    reference_column("same_as_id", "case_results", optional=True),
    reference_column("regression_id", "regressions", optional=True),
    sa.UniqueConstraint("night_id", "cell_id"),
)
table(
    "submissions",
    column("bisection", STRING_64, unique=True),
    column("user", STRING_64),
    column("words", sa.JSON),
    column("folder", sa.Text),
    column("priority", sa.Integer),
    optional_column("board", STRING_64),
    optional_column("device", sa.Integer),
    column("created", TIME),
    column("state", STRING_32),
    column("cancelling", sa.Boolean),
    optional_column("exit_code", sa.Integer),
    optional_column("finished", TIME),
    optional_column("place", STRING_64),
    optional_column("worker", sa.String(128)),
    optional_column("host", sa.String),
    optional_column("started", TIME),
    optional_column("lease", TIME),
    column("lost", sa.Integer),
    column("seconds", sa.Double),
    column("tail", sa.Text),
    column("afterwards", sa.JSON, "[]"),
    optional_column("lacking", sa.Text),
    optional_column("lacking_host", sa.String),
)
table(
    "tokens",
    column("user", STRING_64),
    column("digest", STRING_64, unique=True),
    column("created", TIME),
    optional_column("revoked", TIME),
)
# Each row is one process that started or resumed a bisection.
table(
    "drives",
    reference_column("bisection_id", "bisections", index=True),
    column("host", sa.String),
    column("process", sa.Integer),
    column("begun", TIME),
    column("until", TIME),
    optional_column("end", STRING_32),
    optional_column("message", sa.Text),
)
