"""What a command's run shows of its failure, and how like the failing end's that is."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    with op.batch_alter_table("probes") as table:
        table.add_column(sa.Column("symptoms", sa.JSON(), nullable=True))
        table.add_column(sa.Column("likeness", sa.Double(), nullable=True))
