"""python CHECKS REPOSITORY/NAME, in the tree of a commit: does what the check of that name says hold there?

Exit code 0: it does. 1: it does not. 125: it cannot be told, because what it speaks of is not there, or as the check
itself failed.
"""

import importlib
import sys
import traceback
from pathlib import Path


def main() -> int:
    check = Path(__file__).parent / sys.argv[1]
    sys.path[0] = str(check.parent)  # In place of this folder, whose names are those of repositories.
    try:
        holds = importlib.import_module(check.name).holds()
    except Exception:
        traceback.print_exc()
        return 125
    return 125 if holds is None else int(not holds)


if __name__ == "__main__":
    sys.exit(main())
