"""The first schema: bisections, stages, commits, candidates, probes, evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "bisections",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("good", sa.String(length=64), nullable=False),
        sa.Column("bad", sa.String(length=64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("golden", sa.String(length=64), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("conclusion", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "builds",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "commits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("sha", sa.String(length=64), nullable=False),
        sa.Column("parents", sa.JSON(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("date", sa.DateTime(timezone=True), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("repository", "sha"),
    )
    op.create_index(op.f("ix_commits_sha"), "commits", ["sha"], unique=False)
    op.create_table(
        "environments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("fingerprint"),
    )
    op.create_table(
        "notices",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bisection_id", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bisection_id"],
            ["bisections.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_notices_bisection_id"), "notices", ["bisection_id"], unique=False)
    op.create_table(
        "stages",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bisection_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("good", sa.String(length=64), nullable=False),
        sa.Column("bad", sa.String(length=64), nullable=False),
        sa.Column("held", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["bisection_id"],
            ["bisections.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bisection_id", "ordinal"),
    )
    op.create_index(op.f("ix_stages_bisection_id"), "stages", ["bisection_id"], unique=False)
    op.create_table(
        "candidates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("stage_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("commit_id", sa.Integer(), nullable=False),
        sa.Column("representative_id", sa.Integer(), nullable=True),
        sa.Column("content", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["commit_id"],
            ["commits.id"],
        ),
        sa.ForeignKeyConstraint(
            ["representative_id"],
            ["commits.id"],
        ),
        sa.ForeignKeyConstraint(
            ["stage_id"],
            ["stages.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("stage_id", "ordinal"),
    )
    op.create_index(op.f("ix_candidates_stage_id"), "candidates", ["stage_id"], unique=False)
    op.create_table(
        "probes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("bisection_id", sa.Integer(), nullable=False),
        sa.Column("stage_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("commit", sa.String(length=64), nullable=False),
        sa.Column("revisions", sa.JSON(), nullable=False),
        sa.Column("content", sa.String(length=64), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=True),
        sa.Column("judgement", sa.String(length=32), nullable=True),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("build_id", sa.Integer(), nullable=True),
        sa.Column("build_source", sa.String(length=32), nullable=True),
        sa.Column("build_seconds", sa.Double(), nullable=True),
        sa.Column("run_seconds", sa.Double(), nullable=True),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("slot", sa.Integer(), nullable=True),
        sa.Column("host", sa.String(), nullable=True),
        sa.Column("command", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["bisection_id"],
            ["bisections.id"],
        ),
        sa.ForeignKeyConstraint(
            ["build_id"],
            ["builds.id"],
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
        ),
        sa.ForeignKeyConstraint(
            ["stage_id"],
            ["stages.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("bisection_id", "content", "run"),
        sa.UniqueConstraint("bisection_id", "ordinal"),
    )
    op.create_index(op.f("ix_probes_bisection_id"), "probes", ["bisection_id"], unique=False)
    op.create_index(op.f("ix_probes_commit"), "probes", ["commit"], unique=False)
    op.create_index(op.f("ix_probes_stage_id"), "probes", ["stage_id"], unique=False)
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("probe_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["probe_id"],
            ["probes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_artifacts_probe_id"), "artifacts", ["probe_id"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("probe_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(length=16), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["probe_id"],
            ["probes.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_evidence_probe_id"), "evidence", ["probe_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_evidence_probe_id"), table_name="evidence")
    op.drop_table("evidence")
    op.drop_index(op.f("ix_artifacts_probe_id"), table_name="artifacts")
    op.drop_table("artifacts")
    op.drop_index(op.f("ix_probes_stage_id"), table_name="probes")
    op.drop_index(op.f("ix_probes_commit"), table_name="probes")
    op.drop_index(op.f("ix_probes_bisection_id"), table_name="probes")
    op.drop_table("probes")
    op.drop_index(op.f("ix_candidates_stage_id"), table_name="candidates")
    op.drop_table("candidates")
    op.drop_index(op.f("ix_stages_bisection_id"), table_name="stages")
    op.drop_table("stages")
    op.drop_index(op.f("ix_notices_bisection_id"), table_name="notices")
    op.drop_table("notices")
    op.drop_table("environments")
    op.drop_index(op.f("ix_commits_sha"), table_name="commits")
    op.drop_table("commits")
    op.drop_table("builds")
    op.drop_table("bisections")
