"""The kind of each class of pypto's IR that is derived from `Expr` is in the list by which `As<Expr>` tells one."""

import re
from pathlib import Path

FOLDER = Path("include/pypto/ir")
LIST = re.compile(r"struct KindTrait<Expr> \{.*?\{(.*?)\};", re.DOTALL)
KIND = re.compile(r"ObjectKind::(\w+)")
CLASS = re.compile(r"^class (\w+)(?: final)? : public (\w+)", re.MULTILINE)


def holds() -> bool | None:
    """None where there is no such list."""
    traits = FOLDER / "kind_traits.h"
    listed = LIST.search(traits.read_text(encoding="utf-8")) if traits.exists() else None
    if listed is None:
        return None
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.h")))
    bases = dict(CLASS.findall(text))
    concrete = set(re.findall(r"return ObjectKind::(\w+);", text))
    expressions = {name for name in bases if name in concrete and "Expr" in lineage(name, bases)}
    missing = expressions - set(KIND.findall(listed[1]))
    for name in sorted(missing):
        print(f"not listed: {name}")
    return not missing


def lineage(name: str, bases: dict[str, str]) -> set[str]:
    """What a class is derived from."""
    found = set[str]()
    while name in bases and name not in found:
        found.add(name)
        name = bases[name]
    return found | {name}
