"""Does what a release declares agree with its own counts?

Every test of exposure rests on what the trainer declares: the split was random, its
unit was the record, these names are different splits. Counts can contradict that.
Logical contradictions need no test (``logic``); all others (``chance``) share one level
per release, so that a true release is rarely accused. ``table`` lists all checks, and
``arrays`` holds what they look at.
"""
