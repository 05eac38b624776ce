"""A C++ compiler that compiles each text once: the demo stack's builds are real, and most of them are equal.

What was compiled is kept by the content of all that decides it: the compiler, its flags, the source, and the headers of
every folder that it is told to look in. It stays between runs of the tests and is shared by their processes.
"""

import hashlib
import os
import shutil
import time
from pathlib import Path

KEPT_DAYS = 14
_WRAPPER = """\
#!/bin/sh
# Called as the compiler is, which does all but compilations of one source that includes from no other folder.
kept=@KEPT@ compiler=@COMPILER@
next='
'
IFS=$next
set -f
previous= source= include= output= flags=
for word in "$@"; do
    case $previous in
        -I) include="$include$word$next" ;;
        -o) output=$word ;;
        *) case $word in
            -I | -o) ;;
            *.cpp) source="$source$word$next" ;;
            *) flags="$flags $word" ;;
        esac ;;
    esac
    previous=$word
done
source=${source%"$next"}
case $source in *"$next"*) exec "$compiler" "$@" ;; /*) ;; *) exec "$compiler" "$@" ;; esac
[ -n "$output" ] || exec "$compiler" "$@"
if grep -q '#include "[^"]*/' "$source"; then exec "$compiler" "$@"; fi
headers=
set +f
for folder in "${source%/*}" $include; do
    for header in "$folder"/*.h; do [ ! -f "$header" ] || headers="$headers$header$next"; done
done
set -f
names=$(for header in $headers; do echo "${header##*/}"; done)
key=$( { echo "$flags $names"; cat "$source" $headers; } | sha256sum)
entry=$kept/${key%% *}
if [ ! -f "$entry" ]; then
    text=$("$compiler" "$@" 2>&1)
    code=$?
    [ -z "$text" ] || { printf '%s\\n' "$text" >&2; exit $code; }
    [ $code = 0 ] || exit $code
    cp "$output" "$entry.$$" && mv "$entry.$$" "$entry"
    exit 0
fi
cp "$entry" "$output"
"""


def compile_once(folder: Path) -> None:
    """Put the compiler in front of the others on PATH; `folder` keeps what it compiles.

    Without a `c++` on PATH, or where a parent process has done it, nothing changes.
    """
    compiler = shutil.which("c++")
    if compiler is None or folder in Path(compiler).parents:
        return
    version = Path(compiler).resolve().stat()
    kind = hashlib.sha256(f"{_WRAPPER}{compiler}{version.st_size}{version.st_mtime_ns}".encode()).hexdigest()[
        :16
    ]
    kept = folder / kind
    kept.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - KEPT_DAYS * 24 * 3600
    for entry in folder.glob("*/*"):
        if entry.is_file() and entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)
    programs = kept / "bin"
    programs.mkdir(exist_ok=True)
    wrapper = programs / f"c++.{os.getpid()}"
    wrapper.write_text(_WRAPPER.replace("@KEPT@", f"'{kept}'").replace("@COMPILER@", f"'{compiler}'"))
    wrapper.chmod(0o755)
    wrapper.replace(programs / "c++")
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
