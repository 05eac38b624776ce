"""What a case imports and nobody has, over the repositories of a stack."""

from pathlib import PurePosixPath

import pytest

from precision_bisect.runner.case.case import CaseName
from precision_bisect.runner.case.preflight import CaseImports, may_install
from tests.runner.small_stack import SmallStack

CASE = CaseName(path=PurePosixPath("models/case.py"), arguments=())


def missing(small: SmallStack, files: dict[str, str]) -> list[str]:
    """What is missing with these files in the repository of cases."""
    sha = small.cases.commit("case", files)
    workspace = small.workspace()
    revisions = {"tool": small.tool.git("rev-parse", "HEAD"), "cases": sha}
    return [str(each) for each in CaseImports(small.stack(), workspace.clones, revisions).missing(CASE)]


def test_only_what_nobody_has_is_missing(small: SmallStack) -> None:
    small.tool.commit(
        "compiled", {"python/tool/__init__.py": "", "src/m.cpp": "NB_MODULE(_compiled, m) {}\n"}
    )
    text = "import os, json.decoder, pytest\nimport tool.inner\nimport _compiled\nimport not_here.x\n"
    assert missing(small, {"models/case.py": text}) == ["not_here (models/case.py:4)"]


def test_what_files_beside_the_case_import_is_followed(small: SmallStack) -> None:
    files = {
        "models/case.py": "from helper import run\nimport library.part\n",
        "models/helper.py": "import lacking_a\n",
        "library/__init__.py": "",
        "library/part.py": "from . import other\n",
        "library/other.py": "\nimport lacking_b\ndef later():\n    import lacking_c\n",
    }
    assert sorted(missing(small, files)) == [
        "lacking_a (models/helper.py:1)",
        "lacking_b (library/other.py:2)",
    ]


def test_files_that_import_each_other_end(small: SmallStack) -> None:
    files = {"models/case.py": "import one\n", "models/one.py": "import case, gone\n"}
    assert missing(small, files) == ["gone (models/one.py:1)"]


@pytest.mark.parametrize(
    ("command", "may"),
    [
        (["{python}", "build.py"], False),
        (["env", "A=b", "{python}", "-m", "pip", "install", "--no-deps", "."], False),
        (["{python}", "-m", "pip", "install", "."], True),
        (["make", "deps"], True),
    ],
)
def test_a_step_may_install_what_is_missing(small: SmallStack, command: list[str], may: bool) -> None:
    small.steps = {"build": {"command": command, "inputs": ["tool"]}}
    assert may_install(small.stack()) is may
