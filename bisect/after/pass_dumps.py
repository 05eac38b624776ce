"""Builds that show the program after each pass of the compiler: probes leave that out, to run as the user's runs do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.generated_sources import compare_generated
from ...runner.probe.probe import Prober
from ...runner.probe.records import ProbeRequest
from ...store.vocabulary import Verdict


def compiled_differently(builds: Sequence[Path]) -> bool:
    """Whether the generated sources of two builds differ. Raises `BuildOutputError`."""
    failing, reference = map(BuildDirectory.open, builds)
    return not compare_generated(failing, reference).is_empty


def build_with_passes(prober: Prober, request: ProbeRequest, verdict: Verdict | None) -> Path | None:
    """The build of a run more; None where that ends in another way than with the `verdict` of the run before.

    Raises `UserError`, and `InterruptedWorkError`.
    """
    dumping = replace(request, options=replace(request.options, dump_passes=True))
    found = prober.probe(dumping)
    return found.build_directory if found.classification.verdict is verdict else None
