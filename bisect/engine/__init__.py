"""A bisection as a value: it takes what has happened and says what it needs next. It does nothing itself.

`bisection` is the value, with the states before a search: the good end, the range, the golden data, the two ends.
`search` chooses the next runs and tries perturbations, and `culprit` tests what a named commit changes. `range_search`
is the search of one range, and says which run is worth most. `runs` has the probes and all that is known. `failures`
distinguishes failures, and `trouble` finds why runs cannot be judged. `answer` says what a state is, and draws the
conclusion. `estimate` says what is still to run. Begin with `bisection`, then `search`.
"""
