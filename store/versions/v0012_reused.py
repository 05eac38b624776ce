"""Of a probe that was made for another bisection, which asked the same: which one it is."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("probes", sa.Column("reused_id", sa.Integer(), nullable=True))
