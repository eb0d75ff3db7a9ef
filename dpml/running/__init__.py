"""From a specification to result rows: plan, compute, store."""
