"""Directions as the runtime has them."""

from enum import Enum


class ArgDirection(Enum):
    IN = 0
    OUT = 1
    INOUT = 2
