"""As `scatter_by_mask_compiles`, with a header `<format>` made for it: g++ 12.2 lacks it, the simulator includes it."""

import tempfile
from pathlib import Path

from scatter_by_mask_compiles import compiles

FORMAT = """
#pragma once
#include <string>
namespace std {
template <class... A> string format(A &&...) { return {}; }
template <class O, class... A> O format_to(O out, A &&...) { return out; }
}
"""


def holds() -> bool | None:
    """None where it does not compile for another reason."""
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        Path(folder, "format").write_text(FORMAT, encoding="utf-8")
        return compiles(f"-I{folder}")
