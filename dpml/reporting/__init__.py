"""Compute statistics from rows, and make tables, figures, verdicts and pages from the statistics."""
