"""Does what a release declares agree with its own counts? ``table`` lists the checks."""
