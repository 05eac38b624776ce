"""A kernel that scatters by a mask (`TSCATTER<MaskPattern>`) is valid C++ on pto-isa's simulator. Nothing is built."""

import os
import re
import subprocess

KERNEL = """
#include <cstddef>
#include <cstdint>
#include <pto/pto-inst.hpp>
using Rows = pto::Tile<pto::TileType::Vec, float, 16, 64, pto::BLayout::RowMajor, 16, 64>;
void scatter(Rows &to, Rows &from) { pto::TSCATTER<pto::MaskPattern::P0101>(to, from); }
"""
REFUSED = re.compile(r"no matching function for call to .TSCATTER<")


def holds() -> bool | None:
    """None where it does not compile for another reason."""
    return compiles()


def compiles(*options: str) -> bool | None:
    """The same, with these options of the compiler too."""
    done = subprocess.run(
        ["g++", "-std=c++20", "-D__CPU_SIM", "-Iinclude", *options, "-w", "-fsyntax-only", "-x", "c++", "-"],
        input=KERNEL,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stderr[:2000])
    if done.returncode == 0:
        return True
    return False if REFUSED.search(done.stderr) else None
