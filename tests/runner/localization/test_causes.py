"""Why a case fails, as a document: what earlier versions wrote of it is read."""

from __future__ import annotations

from precision_bisect.runner.localization import CaseFailure, ColumnRun, RowRun, UnwrittenRows


def test_rows_that_were_written_down_without_columns_are_read() -> None:
    earlier = {"output": "y", "rows": [{"first": 0, "last": 7}], "written_by": ["task 3 y"]}
    failure = CaseFailure.model_validate({"rtol": 0.1, "atol": 0.2, "told": True, "unwritten": [earlier]})
    assert failure.unwritten == (
        UnwrittenRows(output="y", rows=(RowRun(first=0, last=7),), written_by=("task 3 y",)),
    )


def test_columns_stay_when_they_are_written_and_read() -> None:
    rows = UnwrittenRows(output="y", rows=(), columns=(ColumnRun(first=192, last=199),))
    assert UnwrittenRows.model_validate_json(rows.model_dump_json()) == rows
