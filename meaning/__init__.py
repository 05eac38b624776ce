"""The meaning of a compiled program: the compiler's own IR, executed pass by pass and byte for byte.

A compiler dumps its IR after each pass. This room reads such dumps and runs them on the case's inputs. It says from
which pass on the result is wrong, with which statement, and which tile was put over which. It needs no good commit, no
assembler and no simulator. It knows neither `bisect` nor `reduce`.

- `ir` holds the nouns; `dump_reader` makes a program of a dump.
- `operations` is the table of what each operation computes and what it may do to bytes. `movement` holds those that
  only move elements, `values` what they are given, `arithmetic` the numbers.
- `execution` runs a program on values; `memory` runs it on the bytes that the compiler assigned, and finds faults.
- `intervention` says what a pass changed, and which of its changes is the cause.
- `ladder` runs all passes of a case, and says what explains a failure, from the check on. Begin there.
"""
