"""The report's JSON schema.

python -m precision_bisect.bisect.report.schema > docs/report.schema.json
"""

import json

from .model import Report


def schema_text() -> str:
    """The schema of what `report.json` holds."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Report.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
