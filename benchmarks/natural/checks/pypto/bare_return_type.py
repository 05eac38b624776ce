"""pypto gives what a kernel returns no type `pl.Tensor` without a shape, which its own parser refuses.

The specializer is loaded alone, with stand-ins for the rest of pypto.
"""

import ast
import importlib.util
import sys
from types import ModuleType
from unittest.mock import MagicMock

SPECIALIZER = "python/pypto/jit/specializer.py"
KERNEL = "def kernel(out) -> tuple[pl.Tensor, pl.Tensor]:\n    return local, out\n"
IMPORTED = ("pypto", "pypto.pypto_core", "pypto._external_source", "pypto.language.typing.array")


class StandIn(ModuleType):
    """A module that has each name which is asked of it."""

    def __getattr__(self, name: str) -> MagicMock:
        return MagicMock()


def holds() -> bool:
    sys.modules.update({name: StandIn(name) for name in IMPORTED})
    specification = importlib.util.spec_from_file_location("specializer", SPECIALIZER)
    assert specification is not None
    assert specification.loader is not None
    specializer = importlib.util.module_from_spec(specification)
    sys.modules["specializer"] = specializer
    specification.loader.exec_module(specializer)
    shaped = specializer.TensorMeta(shape=(32, 32), dtype=specializer.DataType.FP32)
    annotation = specializer._infer_return_type(ast.parse(KERNEL).body[0], {"out": shaped}, ["out"])
    return annotation is None or "pl.Tensor," not in annotation
