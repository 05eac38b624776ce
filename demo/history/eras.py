"""What every history of the compiler goes through, whatever its scenario: older spellings, and commits that break.

Each is an overlay on the newest source: an older spelling is on from the root until the commit that ends it, a
breakage from the commit that makes it until the commit that fixes it.
"""

from ..layout import CommitRole
from .edit import Replace, ReplaceAll, TreeEdit
from .history import Switch

_OLD_FLAG = TreeEdit(
    "Refactor: --dump-args takes the place of --dump-tensor",
    (
        ReplaceAll("minipto/flags.py", "dump-args", "dump-tensor"),
        ReplaceAll("minipto/flags.py", "dump_args", "dump_tensor"),
        ReplaceAll("minipto/replay.py", "dump-args", "dump-tensor"),
        ReplaceAll("minipto/replay.py", "dump_args", "dump_tensor"),
        ReplaceAll("minipto/runtime.py", "enable_dump_args", "enable_dump_tensor"),
    ),
)

_OLD_SPELLING = TreeEdit(
    "Update: names of minirt's orchestration types",
    (
        ReplaceAll("minipto/codegen/orchestration.py", "CoreTaskArgs", "L0TaskArgs"),
        ReplaceAll("minipto/codegen/orchestration.py", "ChipTaskArgs", "L2TaskArgs"),
        ReplaceAll("minipto/codegen/orchestration.py", "ChipTensor", "Tensor"),
    ),
)

# The version module itself was left out of the commit: neither does the package install, nor import.
_FORGOTTEN_FILE = TreeEdit(
    "Refactor: keep the version in one module",
    (
        Replace("pyproject.toml", 'version = "0.7.0"', 'dynamic = ["version"]'),
        Replace(
            "pyproject.toml",
            "[tool.setuptools]\n",
            '[tool.setuptools.dynamic]\nversion = { attr = "minipto.version.VERSION" }\n\n[tool.setuptools]\n',
        ),
        Replace(
            "minipto/__init__.py",
            "from .types import CompileError",
            "from .version import VERSION as __version__\nfrom .types import CompileError",
        ),
    ),
)

# A pass is a plain function and has no label: every compilation ends in an AttributeError.
_UNTRIED_LABEL = TreeEdit(
    "Refactor: take the dump's name from the pass itself",
    (Replace("minipto/compiler.py", 'dumps[f"after_{name}"]', 'dumps[f"after_{run.label}"]'),),
)

STANDING = (_OLD_FLAG, _OLD_SPELLING)
"""Overlays that are on at the root."""

SWITCHES = {
    CommitRole.RENAME: Switch(_OLD_FLAG, on=False, subject=_OLD_FLAG.subject),
    CommitRole.RESPELL: Switch(_OLD_SPELLING, on=False, subject=_OLD_SPELLING.subject),
    CommitRole.BREAK: Switch(_FORGOTTEN_FILE, on=True, subject=_FORGOTTEN_FILE.subject),
    CommitRole.REPAIR: Switch(_FORGOTTEN_FILE, on=False, subject=f'Revert "{_FORGOTTEN_FILE.subject}"'),
    CommitRole.CRASH: Switch(_UNTRIED_LABEL, on=True, subject=_UNTRIED_LABEL.subject),
    CommitRole.RECOVER: Switch(_UNTRIED_LABEL, on=False, subject="Fix: name of the pass in dumps"),
}
"""What the commit of each special role switches."""
