"""An arrow of simpler's swimlanes ends later than it starts, also where its first task ends late."""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def task(number: int, start: float, end: float) -> dict[str, object]:
    """A record of one task, in microseconds."""
    return {
        "task_id": number, "func_id": 0, "core_id": number, "core_type": "aiv", "fanout": [],
        "start_time_us": start, "end_time_us": end, "duration_us": end - start, "receive_time_us": start - 0.5,
        "local_setup_us": 0.5, "dispatch_time_us": start - 1, "finish_time_us": end + 1,
    }  # fmt: skip


def holds() -> bool | None:
    """None where no arrow is drawn."""
    package = ModuleType("simpler_setup")
    package.__path__ = [str(Path.cwd() / "simpler_setup")]
    sys.modules["simpler_setup"] = package
    converter = importlib.import_module("simpler_setup.tools.swimlane_converter")
    with tempfile.TemporaryDirectory(prefix="natural-") as folder:
        page = Path(folder) / "trace.json"
        converter.generate_chrome_trace_json(
            [task(1, 11, 20), task(2, 15, 30)], str(page), deps_edges={1: [2]}
        )
        events = json.loads(page.read_text(encoding="utf-8"))["traceEvents"]
    flows = [event for event in events if event.get("name") in ("dependency", "hb_violation")]
    starts = {event["id"]: event["ts"] for event in flows if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in flows if event["ph"] == "f"}
    return all(starts[flow] <= ends[flow] for flow in starts) if starts else None
