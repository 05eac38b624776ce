"""Why a machine cannot run a submission that waits."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("lacking", sa.Text(), nullable=True))
