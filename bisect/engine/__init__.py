"""A bisection as a value: it takes what has happened and says what it needs next. It does nothing itself.

`bisection` is the value, with its first states: a good end is looked for, the range is loaded, and its ends are
measured. `runs` describes a run from wish to result, and judges with `trouble` what came back. `search` chooses the
next run and tries perturbations. `culprit` looks closer at what was found. `range_search` is the search of one range
with its evidence, and says which run is worth most. `answer` says what was found, as it is kept. `failures` tells one
failure from another, and says what the runs of one target make it. Begin with `bisection`, then `search`.
"""
