"""The parts of the site that are made at every build, and formulas as MathML."""
