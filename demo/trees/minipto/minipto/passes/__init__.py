"""The passes, in order. Each takes a program and returns a new one."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Program
from .allocate_memory_addr import allocate_memory_addr
from .eliminate_dead_code import eliminate_dead_code
from .fuse_elementwise import fuse_elementwise
from .legalize_casts import legalize_casts
from .place_scopes import place_scopes
from .reuse_memory import reuse_memory
from .tile_loops import tile_loops

PASSES: tuple[tuple[str, Callable[[Program], Program]], ...] = (
    ("EliminateDeadCode", eliminate_dead_code),
    ("LegalizeCasts", legalize_casts),
    ("FuseElementwise", fuse_elementwise),
    ("TileLoops", tile_loops),
    ("PlaceScopes", place_scopes),
    ("ReuseMemory", reuse_memory),
    ("AllocateMemoryAddr", allocate_memory_addr),
)
