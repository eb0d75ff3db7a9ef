"""From rows to statistics, tables, figures, verdicts and pages."""
