"""A night as JUnit XML: a test case a cell, the culprit in the text of its failure."""

import re
from xml.etree import ElementTree

from ...store.vocabulary import CaseStatus
from .summary import CaseReport, IncidentReport, NightReport

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped (section 2.2, Char)."""
_FAILURES = frozenset({CaseStatus.NEW, CaseStatus.REGRESSED, CaseStatus.KNOWN})
_SKIPPED = frozenset({CaseStatus.INFRASTRUCTURE, CaseStatus.UNTESTED})


def junit_text(report: NightReport) -> str:
    """The document. Flaky cells and those that pass count as passed, infrastructure and untested ones as skipped."""
    incidents = {incident.number: incident for incident in report.incidents}
    failures = sum(case.status in _FAILURES for case in report.cases)
    skipped = sum(case.status in _SKIPPED for case in report.cases)
    counts = {
        "tests": str(len(report.cases)),
        "failures": str(failures),
        "skipped": str(skipped),
        "errors": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": report.job, "timestamp": f"{report.started:%Y-%m-%dT%H:%M:%S}", **counts}
    )
    for case in report.cases:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": _clean(f"{case.platform}.{case.branch}"),
                "name": _clean(f"{case.case} [{case.tolerance}]"),
                "time": f"{case.seconds:.3f}",
            },
        )
        _add_outcome(element, case, incidents.get(case.incident) if case.incident else None)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_outcome(element: ElementTree.Element, case: CaseReport, incident: IncidentReport | None) -> None:
    if case.status in _FAILURES:
        message = _clean(f"{case.status}: {case.told}")
        failure = ElementTree.SubElement(
            element, "failure", {"type": str(case.verdict or case.status), "message": message}
        )
        culprit = (
            f"\nculprit: {incident.repository} {incident.culprit} {incident.subject}" if incident else ""
        )
        failure.text = _clean(f"{message}{culprit}")
    elif case.status in _SKIPPED:
        ElementTree.SubElement(element, "skipped", {"message": _clean(f"{case.status}: {case.told}")})
    elif case.status is CaseStatus.FLAKY:
        ElementTree.SubElement(element, "system-out").text = _clean(f"flaky: {case.told}")


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
