"""`kernel_config.py` of every era, read and never run."""

from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.runner.build_output.directory import CoreType, Direction, KernelConfig, kernel_names
from precision_bisect.runner.build_output.files import BuildOutputError, MalformedFileError, UnsafePathError
from tests.runner.build_output.build_files import KERNEL_CONFIG

FIRST_ERA = """\
# Kernel and Orchestration Configuration

from pathlib import Path

_ROOT_DIR = Path(__file__).parent

RUNTIME_CONFIG = {
\t"runtime": "tensormap_and_ringbuffer",
\t"aicpu_thread_num": 4,
\t"block_dim": 24,
}

ORCHESTRATION = {
\t"source": str(_ROOT_DIR / "orchestration" / "sums.cpp"),
\t"function_name": "aicpu_orchestration_entry"
}

KERNELS = [
\t{"func_id": 0, "source": str(_ROOT_DIR / "kernels" / "aiv" / "square.cpp"), "core_type": "aiv"},
]
"""


def read(folder: Path, text: str) -> KernelConfig:
    (folder / "kernel_config.py").write_text(text)
    return KernelConfig.open(folder)


def test_newest_era(tmp_path):
    config = read(tmp_path, KERNEL_CONFIG)
    assert config.runtime == {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}
    assert config.orchestration.source == PurePosixPath("orchestration/sums.cpp")
    assert config.orchestration.function_name == "aicpu_orchestration_entry"
    assert config.orchestration.signature == (Direction.IN, Direction.INOUT)
    square, summed = config.kernels.values()
    assert (square.func_id, square.name, square.core_type) == (0, "square", CoreType.AIV)
    assert square.signature == (Direction.IN, Direction.OUT)
    assert (summed.source, summed.core_type) == (PurePosixPath("kernels/aic/sum.cpp"), CoreType.AIC)
    assert config.kernel_named("sum") is summed
    assert config.kernel_named("none") is None


def test_first_era_has_no_names_and_no_signatures(tmp_path):
    config = read(tmp_path, FIRST_ERA)
    assert config.orchestration.signature is None
    assert (config.kernels[0].name, config.kernels[0].signature) == ("square", None)


@pytest.mark.parametrize(
    "expression",
    [
        'str(_ROOT_DIR / "kernels" / "k.cpp")',
        'str(_ROOT_DIR / "kernels/k.cpp")',
        '_ROOT_DIR / "kernels" / "k.cpp"',
        'str(Path(__file__).parent / "kernels" / "k.cpp")',
        'str(Path(__file__).resolve().parent / "x" / ".." / "kernels" / "k.cpp")',
        'os.path.join(_ROOT_DIR, "kernels", "k.cpp")',
        'os.path.join(os.path.dirname(__file__), "kernels", "k.cpp")',
        '"kernels/k.cpp"',
        "SOURCE",
    ],
)
def test_spellings_of_a_path(tmp_path, expression):
    text = f'SOURCE = "kernels/k.cpp"\n{FIRST_ERA}'
    config = read(tmp_path, text.replace('str(_ROOT_DIR / "kernels" / "aiv" / "square.cpp")', expression))
    assert config.kernels[0].source == PurePosixPath("kernels/k.cpp")


def test_absolute_path_into_the_build(tmp_path):
    text = FIRST_ERA.replace(
        'str(_ROOT_DIR / "kernels" / "aiv" / "square.cpp")', repr(str(tmp_path.resolve() / "k.cpp"))
    )
    assert read(tmp_path, text).kernels[0].source == PurePosixPath("k.cpp")


def test_external_kernel(tmp_path):
    entry = (
        '{"func_id": 3, "name": "tiling", "source": \'/opt/kernels/tiling.cpp\', "core_type": "aiv", '
        "\"external\": True, \"extra_include_dirs\": ['/opt/include', '/opt/more']},\n]\n"
    )
    kernel = read(tmp_path, KERNEL_CONFIG.removesuffix("]\n") + entry).kernels[3]
    assert kernel.external
    assert kernel.source == PurePosixPath("/opt/kernels/tiling.cpp")
    assert kernel.include_dirs == ("/opt/include", "/opt/more")


@pytest.mark.parametrize(
    "expression",
    [
        'str(_ROOT_DIR / ".." / "k.cpp")',
        'str(_ROOT_DIR / "kernels" / "../../k.cpp")',
        'str(_ROOT_DIR / "/etc/passwd")',
        '"/etc/passwd"',
        '"../k.cpp"',
        'str(_ROOT_DIR / "out" / "k.cpp")',
    ],
)
def test_paths_that_climb_out_are_errors(tmp_path, expression):
    build = tmp_path / "build"
    build.mkdir()
    (build / "out").symlink_to(tmp_path)
    with pytest.raises(UnsafePathError):
        read(build, FIRST_ERA.replace('str(_ROOT_DIR / "kernels" / "aiv" / "square.cpp")', expression))


@pytest.mark.parametrize(
    "payload",
    [
        "__import__('pathlib').Path('{}').touch()",
        "(lambda: open('{}', 'w'))()",
        "[open('{}', 'w') for _ in range(1)]",
        "exec(\"open('{}', 'w')\")",
    ],
)
def test_nothing_is_executed(tmp_path, payload):
    trap = tmp_path / "trap"
    code = payload.format(trap)
    config = read(tmp_path, f"import os\nos.mkdir('{trap}')\nOTHER = {code}\n{KERNEL_CONFIG}\n{code}\n")
    assert len(config.kernels) == 2
    with pytest.raises(MalformedFileError, match="line 1"):
        read(tmp_path, f"KERNELS = {code}\n")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"func_id": 1', '"func_id": 0', "earlier kernel"),
        ('"func_id": 1', '"func_id": True', "func_id"),
        ('"func_id": 1', '"func_id": "1"', "func_id"),
        ('"core_type": "aic"', '"core_type": "gpu"', "gpu"),
        ("[_D.IN, _D.OUT]", "[_D.IN, _D.SIDEWAYS]", "IN, OUT, INOUT"),
        ("[_D.IN, _D.OUT]", "[0, 1]", "IN, OUT, INOUT"),
        ("[_D.IN, _D.OUT]", "_D.IN", "list"),
        ("KERNELS = [", "KERNELS = {}\nOTHER = [", "KERNELS is no list"),
        ("KERNELS = [", "OTHER = [", "KERNELS is no list"),
        ("ORCHESTRATION = {", "ORCHESTRATION = {**x, ", "line 12"),
        ('"function_name": "aicpu_orchestration_entry"', '"function_name": None', "function_name"),
        ("KERNELS = [", "KERNELS = [1, ", r"KERNELS\[0\] is no dictionary"),
        ("KERNELS = [", "KERNELS = [\0", "null"),
        ("sum.cpp", "\\ud800.cpp", "a text that no path"),
        ("sum.cpp", "\\0.cpp", "a text that no path"),
        ('"func_id": 1', '"func_id": 1' + "0" * 4000, "a number this large"),
        ('"func_id": 1', '"func_id": 0x1' + "0" * 9000, "a number this large"),
        ('"func_id": 1', '"func_id": 1' + "0" * 9000, "not valid Python"),
        ("KERNELS = [", "KERNELS = [" + "[" * 80 + "]" * 80 + ", ", "deep"),
        ("KERNELS = [", "KERNELS = [" + "-" * 100_000 + "1, ", "not valid Python"),
        ("KERNELS = [", "KERNELS = [" + "+".join("1" * 20_000) + ", ", "not valid Python"),
    ],
)
def test_wrong_content_is_one_clear_error(tmp_path, old, new, found):
    assert old in KERNEL_CONFIG
    with pytest.raises(MalformedFileError, match=found):
        read(tmp_path, KERNEL_CONFIG.replace(old, new, 1))


def test_missing_and_too_large(tmp_path):
    with pytest.raises(BuildOutputError, match="kernel list"):
        KernelConfig.open(tmp_path)
    with pytest.raises(BuildOutputError, match="at most"):
        read(tmp_path, "#" * 2**21)


def test_names_for_messages_are_empty_where_the_list_cannot_be_read(tmp_path: Path) -> None:
    assert kernel_names(tmp_path) == kernel_names(tmp_path / "absent") == {}
    (tmp_path / "kernel_config.py").write_text("KERNELS = object()\n")
    assert kernel_names(tmp_path) == {}
