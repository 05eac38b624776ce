"""A bisection as a value: it takes what has happened and says what it needs next. It does nothing itself.

`bisection` is the value. Its states follow each other. `good_end` looks for a good end that nobody named. `opening`
loads the range and measures its ends. `target_judgement` says what the runs of one target make it, and `runs` and
`trouble` judge what came back. `search` chooses the next run and tries perturbations. `culprit` looks closer at what
was found. `range_search` is the search of one range with its evidence, and `answer` says what was found. `probes`
describes a run from wish to result. `costs` says which run is worth most. `failures` tells one failure from another.
`conclusion` is the answer that is kept. Begin with `bisection`, then `search`.

"""
