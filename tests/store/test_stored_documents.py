"""Documents: each says its version, and those of earlier versions are brought up to date step by step."""

import json
import math
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from precision_bisect.store.bisections import BisectionJournal
from precision_bisect.store.database import open_store
from precision_bisect.store.durable_files import (
    Document,
    DocumentError,
    plain_value,
    read_document,
    versioned_value,
    write_document,
)
from precision_bisect.store.nights import NightSummary
from tests.store.test_journal import key, result, stage


class Part(Document):
    upgrades = (lambda old: {"name": old["title"]},)
    schema_version: Literal[2] = 2
    name: str


class Whole(Document):
    upgrades = (
        lambda old: {"part": {"title": old["part"]}, "size": old["size"]},
        lambda old: {"part": old["part"], "bytes": old["size"]},
    )
    schema_version: Literal[3] = 3
    part: Part
    bytes: int


WHOLE = Whole(part=Part(name="x"), bytes=3)


@pytest.mark.parametrize(
    "written",
    [
        {"part": "x", "size": 3},
        {"schema_version": 1, "part": "x", "size": 3},
        {"schema_version": 2, "part": {"title": "x"}, "size": 3},
        {"schema_version": 3, "part": {"schema_version": 1, "title": "x"}, "bytes": 3},
        {"schema_version": 3, "part": {"schema_version": 2, "name": "x"}, "bytes": 3},
    ],
)
def test_every_earlier_version_is_read(written: dict[str, Any]) -> None:
    assert read_document(Whole, written) == WHOLE


def test_what_is_written_is_of_the_newest_version() -> None:
    written = write_document(WHOLE)
    assert (written["schema_version"], written["part"]["schema_version"]) == (3, 2)
    assert read_document(Whole, json.loads(json.dumps(written))) == WHOLE


def test_what_code_makes_is_not_taken_for_an_old_one() -> None:
    with pytest.raises(ValueError, match="title"):
        Part.model_validate({"title": "x"})


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"schema_version": 4, "part": "x"}, "update this one"),
        ({"schema_version": 0}, "expected a Whole of schema version 1 or later, found 0"),
        ({"size": 3}, "schema version 1"),
        ({"schema_version": 3, "part": {"name": "x"}, "bytes": "many"}, "another structure"),
        ({"schema_version": 3, "part": {"schema_version": 2, "name": "x"}, "bytes": "many"}, "at bytes"),
        ([], "damaged"),
        (None, "damaged"),
    ],
)
def test_what_cannot_be_read_says_why_in_a_line(written: object, why: str) -> None:
    with pytest.raises(DocumentError, match=why) as refused:
        read_document(Whole, written)
    assert "\n" not in str(refused.value)


def test_a_version_that_its_upgrades_do_not_reach_is_no_document() -> None:
    with pytest.raises(TypeError, match="expected schema_version 1"):
        type("Wrong", (Document,), {"__annotations__": {"schema_version": int}, "schema_version": 2})
    with pytest.raises(TypeError, match="expected schema_version 1"):
        type("Missing", (Document,), {})


def test_a_document_is_a_model_like_others() -> None:
    assert issubclass(Document, BaseModel)
    assert read_document(NightSummary, {"notes": ["one"]}).notes == ("one",)


def columns(sessions: sessionmaker[Session], table: str, *names: str) -> list[Any]:
    with sessions() as session:
        row = session.execute(text(f"SELECT {', '.join(names)} FROM {table}")).one()
        return [json.loads(value) if isinstance(value, str) else value for value in row]


def test_columns_of_plain_values_bear_a_version(url: str) -> None:
    sessions = open_store(url)
    journal = BisectionJournal.begin(sessions, name="one", repository="r", good="g", bad="b", request={})
    ordinal = journal.probes.start(key(stage(journal)))
    journal.probes.finish(ordinal, result(metrics={"y": {"worst": math.inf}}))
    metrics, revisions, command = columns(sessions, "probes", "metrics", "revisions", "command")
    assert metrics == {"schema_version": 2, "values": {"y": {"worst": "inf"}}}
    assert revisions["schema_version"] == command["schema_version"] == 2
    assert [value["schema_version"] for value in columns(sessions, "commits", "parents", "files")] == [2, 2]
    assert columns(sessions, "environments", "details")[0]["schema_version"] == 2


def test_a_column_that_lost_its_value_is_refused() -> None:
    assert plain_value(versioned_value([1, 2])) == [1, 2]
    with pytest.raises(DocumentError, match="expected a column with 'values', found one without"):
        plain_value({"schema_version": 2})


def test_columns_without_a_version_are_plain_values(url: str) -> None:
    sessions = open_store(url)
    journal = BisectionJournal.begin(sessions, name="one", repository="r", good="g", bad="b", request={})
    journal.probes.finish(journal.probes.start(key(stage(journal))), result())
    with sessions.begin() as session:
        session.execute(
            text("""UPDATE probes SET metrics = '{"y": {"worst": "nan"}}', command = '["true"]'""")
        )
    (probe,) = journal.probes.finished_probes()
    assert probe.metrics is not None
    assert math.isnan(probe.metrics["y"]["worst"])
    assert probe.command == ["true"]
