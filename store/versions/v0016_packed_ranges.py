"""Each range holds its commits as one compressed column, in place of a row for each of them."""

import gzip
import json

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

READ = """
SELECT own.sha, own.parents, own.subject, stands.sha AS first, candidates.content
FROM candidates
JOIN commits AS own ON candidates.commit_id = own.id
LEFT JOIN commits AS stands ON candidates.representative_id = stands.id
WHERE candidates.stage_id = :stage
ORDER BY candidates.ordinal
"""


def upgrade() -> None:
    """Pack the commits of each range, and drop their rows."""
    op.add_column("stages", sa.Column("candidates", sa.LargeBinary))
    connection = op.get_bind()
    stages = sa.table("stages", sa.column("id", sa.Integer), sa.column("candidates", sa.LargeBinary))
    query = sa.text(READ).columns(
        sa.column("sha"),
        sa.column("parents", sa.JSON),
        sa.column("subject"),
        sa.column("first"),
        sa.column("content"),
    )
    for (stage,) in connection.execute(sa.select(stages.c.id)).all():
        lines = [
            json.dumps([sha, parents["values"] if isinstance(parents, dict) else parents, *rest]) + "\n"
            for sha, parents, *rest in connection.execute(query, {"stage": stage})
        ]
        if lines:
            packed = gzip.compress("".join(lines).encode())
            connection.execute(stages.update().where(stages.c.id == stage).values(candidates=packed))
    op.drop_table("candidates")
