"""Keys under which things are kept."""

import hashlib
import json
from collections.abc import Mapping


def digest(value: Mapping[str, object]) -> str:
    """A key of whatever JSON can hold, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
