"""Nights, what each case showed in them, regressions and incidents."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("branch", sa.String(), nullable=False),
        sa.Column("case", sa.String(), nullable=False),
        sa.Column("platform", sa.String(length=64), nullable=False),
        sa.Column("tolerance", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job", "branch", "case", "platform", "tolerance"),
    )
    op.create_table(
        "nights",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("heads", sa.JSON(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job", "ordinal"),
    )
    op.create_table(
        "case_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("night_id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True), nullable=False),
        sa.Column("commit", sa.String(length=64), nullable=False),
        sa.Column("revisions", sa.JSON(), nullable=False),
        sa.Column("content", sa.String(length=64), nullable=False),
        sa.Column(
            "verdict",
            sa.String(length=32),
            nullable=False,
        ),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("device", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("build_source", sa.String(length=32), nullable=False),
        sa.Column("build_seconds", sa.Double(), nullable=False),
        sa.Column("run_seconds", sa.Double(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cell_id"],
            ["cells.id"],
        ),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
        ),
        sa.ForeignKeyConstraint(
            ["night_id"],
            ["nights.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("night_id", "cell_id", "run"),
    )
    op.create_index(op.f("ix_case_runs_cell_id"), "case_runs", ["cell_id"], unique=False)
    op.create_index(op.f("ix_case_runs_commit"), "case_runs", ["commit"], unique=False)
    op.create_index(op.f("ix_case_runs_content"), "case_runs", ["content"], unique=False)
    op.create_index(op.f("ix_case_runs_night_id"), "case_runs", ["night_id"], unique=False)
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("repository", sa.String(), nullable=False),
        sa.Column("culprit", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("bisection_id", sa.Integer(), nullable=False),
        sa.Column("opened_night_id", sa.Integer(), nullable=False),
        sa.Column("closed_night_id", sa.Integer(), nullable=True),
        sa.Column("fixed_by", sa.String(length=64), nullable=True),
        sa.Column("reduction", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["bisection_id"],
            ["bisections.id"],
        ),
        sa.ForeignKeyConstraint(
            ["closed_night_id"],
            ["nights.id"],
        ),
        sa.ForeignKeyConstraint(
            ["opened_night_id"],
            ["nights.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job", "ordinal"),
    )
    op.create_index(op.f("ix_incidents_closed_night_id"), "incidents", ["closed_night_id"], unique=False)
    op.create_index(op.f("ix_incidents_opened_night_id"), "incidents", ["opened_night_id"], unique=False)
    op.create_table(
        "hook_calls",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("night_id", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column("called", sa.DateTime(timezone=True), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["incidents.id"],
        ),
        sa.ForeignKeyConstraint(
            ["night_id"],
            ["nights.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_hook_calls_night_id"), "hook_calls", ["night_id"], unique=False)
    op.create_table(
        "regressions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("opened_night_id", sa.Integer(), nullable=False),
        sa.Column("last_good", sa.String(length=64), nullable=False),
        sa.Column("first_bad", sa.String(length=64), nullable=False),
        sa.Column("bad_when", sa.String(), nullable=False),
        sa.Column("bisection_id", sa.Integer(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("incident_id", sa.Integer(), nullable=True),
        sa.Column("recovered_night_id", sa.Integer(), nullable=True),
        sa.Column("last_bad", sa.String(length=64), nullable=False),
        sa.Column("recovered_at", sa.String(length=64), nullable=True),
        sa.Column("fixed_by", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["bisection_id"],
            ["bisections.id"],
        ),
        sa.ForeignKeyConstraint(
            ["cell_id"],
            ["cells.id"],
        ),
        sa.ForeignKeyConstraint(
            ["incident_id"],
            ["incidents.id"],
        ),
        sa.ForeignKeyConstraint(
            ["opened_night_id"],
            ["nights.id"],
        ),
        sa.ForeignKeyConstraint(
            ["recovered_night_id"],
            ["nights.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_regressions_cell_id"), "regressions", ["cell_id"], unique=False)
    op.create_index(op.f("ix_regressions_incident_id"), "regressions", ["incident_id"], unique=False)
    op.create_index(op.f("ix_regressions_opened_night_id"), "regressions", ["opened_night_id"], unique=False)
    op.create_table(
        "case_results",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("night_id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column(
            "status",
            sa.String(length=32),
            nullable=False,
        ),
        sa.Column("commit", sa.String(length=64), nullable=False),
        sa.Column("content", sa.String(length=64), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column(
            "verdict",
            sa.String(length=32),
            nullable=True,
        ),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("same_as_id", sa.Integer(), nullable=True),
        sa.Column("regression_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cell_id"],
            ["cells.id"],
        ),
        sa.ForeignKeyConstraint(
            ["night_id"],
            ["nights.id"],
        ),
        sa.ForeignKeyConstraint(
            ["regression_id"],
            ["regressions.id"],
        ),
        sa.ForeignKeyConstraint(
            ["same_as_id"],
            ["case_results.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("night_id", "cell_id"),
    )
    op.create_index(op.f("ix_case_results_cell_id"), "case_results", ["cell_id"], unique=False)
    op.create_index(op.f("ix_case_results_night_id"), "case_results", ["night_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_case_results_night_id"), table_name="case_results")
    op.drop_index(op.f("ix_case_results_cell_id"), table_name="case_results")
    op.drop_table("case_results")
    op.drop_index(op.f("ix_regressions_opened_night_id"), table_name="regressions")
    op.drop_index(op.f("ix_regressions_incident_id"), table_name="regressions")
    op.drop_index(op.f("ix_regressions_cell_id"), table_name="regressions")
    op.drop_table("regressions")
    op.drop_index(op.f("ix_hook_calls_night_id"), table_name="hook_calls")
    op.drop_table("hook_calls")
    op.drop_index(op.f("ix_incidents_opened_night_id"), table_name="incidents")
    op.drop_index(op.f("ix_incidents_closed_night_id"), table_name="incidents")
    op.drop_table("incidents")
    op.drop_index(op.f("ix_case_runs_night_id"), table_name="case_runs")
    op.drop_index(op.f("ix_case_runs_content"), table_name="case_runs")
    op.drop_index(op.f("ix_case_runs_commit"), table_name="case_runs")
    op.drop_index(op.f("ix_case_runs_cell_id"), table_name="case_runs")
    op.drop_table("case_runs")
    op.drop_table("nights")
    op.drop_table("cells")
