"""The machine that could not run a submission. Earlier reasons are dropped: each look at the queue notes them anew."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("lacking_host", sa.String(), nullable=True))
    submissions = sa.table("submissions", sa.column("lacking"))
    op.execute(submissions.update().values(lacking=None))
