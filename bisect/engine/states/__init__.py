"""The stages of a bisection.

In this order: the good end is looked for where none was named, the range is opened, data are frozen, the ends are
measured, the range is searched and its culprit confirmed, the pins that the culprit moves are tested, one of them is
descended into and its range searched, the conclusion is drawn.
"""
