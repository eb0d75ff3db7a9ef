"""Publish models: guarantees, statements, certificates, and the ledger of spent budgets."""
