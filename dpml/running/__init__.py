"""From a specification to rows: plan, compute, keep."""
