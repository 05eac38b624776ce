"""JSON schemas of the documents that are written, as published under `docs/`."""

import json

from pydantic import BaseModel


def published_schema(document: type[BaseModel], *, by_alias: bool = True) -> str:
    """The schema of what is written of `document`, as the text of its file; `by_alias` as it is written with."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **document.model_json_schema(by_alias=by_alias, mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"
