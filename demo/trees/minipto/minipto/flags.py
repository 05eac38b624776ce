"""The command line that cases share, and how it maps to the golden harness."""

from __future__ import annotations

import argparse
from typing import Any

PLATFORMS = ("a2a3", "a2a3sim", "a5", "a5sim")


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """-p and -d: where to run."""
    parser.add_argument("-p", "--platform", choices=PLATFORMS, default="a2a3sim")
    parser.add_argument("-d", "--device", type=int, default=0, metavar="ID")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """All options: where to run, on which data, what to record."""
    add_target_options(parser)
    parser.add_argument(
        "--golden-data", metavar="DIR", help="take inputs and expected outputs from DIR/in, DIR/out"
    )
    parser.add_argument(
        "--save-data", action="store_true", help="keep inputs and expected outputs in the build"
    )
    parser.add_argument("--runtime-dir", metavar="DIR", help="run this build instead of compiling")
    parser.add_argument(
        "--dump-args",
        type=int,
        nargs="?",
        const=1,
        default=0,
        choices=range(4),
        help="record task arguments: 1 tagged ones, 2 all, 3 metadata only",
    )
    parser.add_argument("--enable-dep-gen", action="store_true", help="record the task graph")
    parser.add_argument("--dump-passes", action="store_true", help="keep the program after each pass")


def target_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of golden.run for `add_target_options`."""
    return {"runtime_cfg": {"platform": arguments.platform, "device_id": arguments.device}}


def run_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of golden.run for `add_run_options`."""
    return {
        "golden_data": arguments.golden_data,
        "save_data": arguments.save_data,
        "runtime_dir": arguments.runtime_dir,
        "compile_cfg": {"dump_passes": arguments.dump_passes},
        "runtime_cfg": {
            "platform": arguments.platform,
            "device_id": arguments.device,
            "enable_dump_args": arguments.dump_args,
            "enable_dep_gen": arguments.enable_dep_gen,
        },
    }
