"""The report's JSON schema.

python -m precision_bisect.bisect.report.model.schema > docs/report.schema.json
"""

from ....store.documents.json_schema import published_schema
from .model import Report


def schema_text() -> str:
    """The schema of what `report.json` holds."""
    return published_schema(Report, by_alias=False)


if __name__ == "__main__":
    print(schema_text(), end="")
