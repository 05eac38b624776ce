"""The bisection that looks for what fixed a regression, and why none does."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    # As SQL that all databases know: SQLite adds a column with its reference, but no constraint by itself, and a
    # table that others refer to cannot be copied.
    op.execute("ALTER TABLE regressions ADD COLUMN fix_bisection_id INTEGER REFERENCES bisections (id)")
    op.execute("ALTER TABLE regressions ADD COLUMN fix_problem TEXT")
    op.execute(
        "UPDATE regressions SET fix_problem = 'an earlier version looked for the fix, and named none'"
        " WHERE recovered_night_id IS NOT NULL AND fixed_by IS NULL"
    )
