"""The Sphinx extension of the site: pages that are generated at every build, and formulas as MathML."""
