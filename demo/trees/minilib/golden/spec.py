"""What the parameters of a program are at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TensorSpec:
    """A tensor parameter. `init_value` takes (shape, dtype=...) as torch.randn does, or is the value; None is zeros."""

    name: str
    shape: list[int]
    dtype: torch.dtype
    init_value: Callable[..., torch.Tensor] | torch.Tensor | None = None
    is_output: bool = False

    def create(self) -> torch.Tensor:
        """A fresh contiguous tensor, on which the run works in place."""
        if self.init_value is None:
            return torch.zeros(self.shape, dtype=self.dtype)
        if isinstance(self.init_value, torch.Tensor):
            return self.init_value.to(self.dtype).contiguous().clone()
        return self.init_value(self.shape, dtype=self.dtype).contiguous()


@dataclass(frozen=True)
class ScalarSpec:
    """A binary32 parameter."""

    name: str
    dtype: torch.dtype
    value: float

    def __post_init__(self) -> None:
        if self.dtype is not torch.float32:
            raise ValueError(f"scalar {self.name}: expected torch.float32, found {self.dtype}")

    def create(self) -> torch.Tensor:
        """The value as a 0-dim tensor."""
        return torch.tensor(self.value, dtype=self.dtype)


Spec = TensorSpec | ScalarSpec
