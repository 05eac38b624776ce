"""What a bisection tells people and programs: one `Report`, and the texts that are made from it.

`model` defines the report, `report_builder` builds it from the rows of the store, and `basis` says on what an answer
rests. `markdown` and `terminal` render the report in the words of `phrases`, and `write` writes its files. `reproduce`
writes the scripts that reproduce both sides. `end_advice` says why two ends do not differ. Begin with `model`.
"""
