"""Algorithms that make one model of the parties' own, or of their votes."""
