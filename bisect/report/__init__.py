"""What a bisection tells people and programs: one `Report`, and the texts that are made from it.

`model` defines the report, and `report_builder` builds it from the rows of the store. `basis` says what an answer rests
on, and `advice` what speaks against it. `terminal` prints the report in the words of `phrases`, and `report_files`
renders and writes its files. `reproduce` writes the scripts that reproduce both sides. Begin with `model`.
"""
