"""Draws the positions of the cases and writes them to `cases.txt`: `python -m benchmarks.kinds.draw`.

A row of `ROWS` names a project, a shape, the other failures, the fault's faces from the culprit on, and words:

- `short` and `long`: 20 and 150 commits in place of 40 to 80.
- `mixed`: the face changes from commit to commit.
- `same`: nobody can tell the other failure from the fault.
- `outside`: the script stands outside of the repository; else it is `./check.sh` of it.
- `dies`: the script ends by the signal itself; else a shell above it exits with 128 and the signal.
- `mute`: the script prints nothing; `word`: it prints FAILED alone; `log`: it prints the path of a log.
- `huge`: 40,000 lines of a build stand before what is printed; `stamps`: each line begins with the time.
"""

import random

from benchmarks.kinds.case import Case, Commit, Expected
from benchmarks.kinds.project import FOLDER, read_projects

SEED = 42

ROWS = """
python overlap import fault
python before import fault
python at module fault
python overlap memory fault outside
python before disk fault-words,fault
python overlap segfault fault dies
python before killed fault dies,long
python several import,data,recursion fault
python nested import,syntax fault,fault-line
python flaky-everywhere network fault
python flaky-fault import fault
python flaky-both disk fault
python single-at import fault
python scattered import,type,memory fault,fault-number mixed
python both fault,import segfault
python face-first shape fault-words,fault
python face-first recursion fault-code,fault
python overlap import fault huge
python after import fault-line,fault-number,fault mixed,long
python overlap fault import short
noisy overlap import fault
noisy before nan fault-number,fault
noisy flaky device fault
noisy overlap accuracy fault
noisy wide nan fault stamps
noisy before import fault-number,fault mixed
pytest overlap collection fault
pytest before collection fault-number,fault
pytest overlap other-test fault
pytest after another-test fault
pytest nested conftest,module fault
pytest face-first usage fault-crash,fault
pytest before test-syntax fault-assertion,fault long
pytest after other-test fault,fault-more
pytest flaky fixture-error fault
pytest several collection,no-tests,other-test fault-line,fault
pytest overlap collection fault word,same
pytest overlap fault other-test
pytest before fault collection
pytest flaky-fault other-test fault
pytest-verbose overlap import fault
pytest-verbose before not-found fault
pytest-verbose face-first no-file fault-assertion,fault
pytest-verbose flaky runtime fault
pytest-verbose from-start no-file fault outside
unittest overlap import fault
unittest before withdraw fault
unittest both overdraft,indent fault
unittest face-first import fault-type,fault
unittest scattered import,setup,withdraw fault-number,fault mixed
gtest overlap compile fault
gtest before link fault
gtest after segfault fault-line,fault
gtest touch other-test fault-more,fault
gtest nested signature,compile fault
gtest before fault segfault
gtest face-first compile fault-crash,fault
gtest flaky segfault fault dies
ctest overlap compile fault
ctest before package fault
ctest after other-test fault,fault-more
ctest several source,mean,libm fault-assertion,fault
ctest face-first missing-exe fault-hang,fault
ctest flaky other-test fault
cmake overlap assertion fault
cmake after template fault-line,fault
cmake touch link fault
cmake both minimum,unsupported fault-words,fault
make overlap compile fault
make before werror fault-number,fault
make both separator,tool fault
make flaky killed fault
make overlap link fault log,same
make single-at header fault
sanitizer overlap value fault
sanitizer before leak fault
sanitizer face-first compile fault-use,fault
sanitizer flaky-fault overflow fault
cargo overlap compile fault
cargo before type fault-number,fault
cargo touch dependency fault
cargo after other-test fault-panic,fault mixed
cargo overlap compile fault mute,same
cargo several manifest,overflow,abort fault-line,fault long
cargo flaky-everywhere dependency fault
cargo overlap fault compile
rustc overlap assertion fault
rustc before private fault
rustc both crate,stack fault-words,fault
go overlap compile fault
go before vet fault-line,fault
go after other-test fault
go face-first timeout fault-deadlock,fault
go flaky timeout fault
go after fault compile
go overlap other-test fault-words,fault
bazel overlap compile fault
bazel before fetch fault-number,fault
bazel touch other-check fault
bazel both build-syntax,label fault outside
bazel-test overlap compile fault
bazel-test flaky server fault
bazel-test face-first timeout fault-cached,fault
bazel-test several visibility,remote,other-test fault
npm overlap module fault
npm before syntax fault-number,fault
npm after export fault-line,fault
npm both script,heap fault-throw,fault
jest overlap module fault
jest before config fault-number,fault
jest after other-test fault-throw,fault
shell overlap command fault
shell before permission fault
shell after unbound fault-number,fault
shell both syntax,source fault-missing,fault
quiet overlap build fault
quiet overlap same fault same
quiet before same fault same
quiet touch same-word fault-word same
quiet after loud fault
quiet face-first build fault-word,fault
prove overlap syntax fault
prove before module fault-more,fault
prove face-first export fault-die,fault
java overlap symbol fault
java before class fault-number,fault
java face-first null fault-bounds,fault
java flaky heap fault
tsc before missing fault-words,fault
tsc after runtime fault-line,fault
mypy before untyped fault-words,fault
mypy both syntax,crash fault-line,fault
ruff-check overlap unused fault
ruff-check after undefined fault-line,fault
ruby overlap load fault
ruby before constant fault-error,fault
torch overlap oom fault
torch flaky oom fault
torch both illegal,shape fault
torch several assert,nccl,oom fault long
torch overlap fault oom
docker overlap pip fault
docker before crash fault
docker flaky-everywhere rate fault
docker several dns,space,daemon fault-body,fault
synthesis overlap license fault
synthesis flaky seats fault
synthesis touch other-assert fault
synthesis overlap nfs fault log,same
"""

Plan = list[Commit]
Stretch = tuple[int, int, str]


def _stretches(shape: str, size: int, culprit: int, others: list[str], rng: random.Random) -> list[Stretch]:
    """Where each other failure stands: from the first commit, up to before the second one."""
    last = size - 1
    some = max(3, round(size * rng.uniform(0.12, 0.25)))
    early, late = max(2, culprit - some), min(last - 1, culprit + some)
    before = (max(1, culprit // 5), max(3, round(culprit * 0.7)))
    after = (culprit + max(2, (last - culprit) // 4), last - max(1, (last - culprit) // 4))
    wide = (max(1, early - some // 2), min(last - 1, late + some // 2))
    inner = ((early + culprit) // 2, (culprit + late) // 2)
    edge = max(2, size // 8)
    places = {
        "overlap": [(early, late)],
        "flaky": [(early, late)],
        "before": [before],
        "flaky-fault": [before],
        "flaky-both": [before],
        "touch": [(early, culprit)],
        "at": [(culprit, late)],
        "after": [after],
        "face-first": [before if rng.random() < 0.5 else after],
        "both": [before, after],
        "nested": [wide, inner],
        "several": [before, (max(before[1] + 2, culprit - 2), culprit + 2), (after[0] + 2, after[1] + 1)],
        "wide": [(edge, last - edge)],
        "from-start": [(1, culprit - 2)],
        "single-at": [(culprit, culprit + 1)],
        "flaky-everywhere": [(1, size)],
        "scattered": [(place, place + 1) for place in rng.sample(range(1, last), k=size // 5)],
    }
    if shape not in places:
        raise ValueError(f"draw.py: expected a shape of {sorted(places)}, found {shape!r}")
    named = [rng.choice(others) for _ in places[shape]] if shape == "scattered" else others
    return [(begin, end, other) for (begin, end), other in zip(places[shape], named, strict=True)]


def _faces(size: int, culprit: int, faces: list[str], mixed: bool, rng: random.Random) -> list[str]:
    """The fault's face at each commit from the culprit on; the bad end has the last one."""
    count = size - culprit
    if mixed:
        return [rng.choice(faces) for _ in range(count - 1)] + [faces[-1]]
    cuts = sorted(rng.sample(range(1, count), k=len(faces) - 1))
    bounds = [0, *cuts, count]
    return [
        face for face, begin, end in zip(faces, bounds, bounds[1:], strict=False) for _ in range(end - begin)
    ]


def draw_case(row: str, name: str) -> Case:
    project, shape, other_text, face_text, *rest = row.split()
    words = set(rest[0].split(",")) if rest else set[str]()
    rng = random.Random(f"{SEED} {row}")
    size = 20 if "short" in words else 150 if "long" in words else rng.randint(40, 80)
    culprit = round(size * rng.uniform(0.3, 0.75))
    rate = rng.choice([0.4, 0.5, 0.7]) if shape in ("flaky-fault", "flaky-both") else 1.0
    faces = _faces(size, culprit, face_text.split(","), "mixed" in words, rng)
    commits = [Commit("good") for _ in range(culprit)] + [Commit(face, rate) for face in faces]
    other_rate = {"flaky": rng.choice([0.3, 0.5, 0.8]), "flaky-everywhere": 0.12, "flaky-both": 0.5}.get(
        shape, 1.0
    )
    for begin, end, other in _stretches(shape, size, culprit, other_text.split(","), rng):
        for i in range(begin, min(end, size)):
            commits[i] = Commit(commits[i].base, commits[i].rate, other, other_rate)
    hidden = any(commits[i].other and commits[i].other_rate == 1 for i in (culprit - 1, culprit))
    # Whether another wording, or another assertion, is the same fault is for the reader to say.
    unlike = shape == "face-first"
    expected: Expected = "undecidable" if "same" in words else "list" if hidden or unlike else "named"
    return Case(
        name,
        project,
        shape,
        frozenset(words - {"short", "long", "mixed", "same"}),
        culprit,
        expected,
        commits,
    )


def main() -> None:
    projects = read_projects()
    lines = [
        "# name | project | shape | flags | culprit | expected | commits, from the good end: see case.py"
    ]
    names: set[str] = set()
    for row in ROWS.strip().splitlines():
        project, shape, others, faces = row.split()[:4]
        unknown = {*others.split(","), *faces.split(",")} - {*projects[project].states}
        if unknown:
            raise ValueError(f"draw.py: expected states of {project}, found {sorted(unknown)} in {row!r}")
        name = f"{project}-{shape}-{others.split(',')[0]}"
        while name in names:
            name += "-again"
        names.add(name)
        lines.append(draw_case(row, name).line())
    (FOLDER / "cases.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 1} cases")


if __name__ == "__main__":
    main()
