"""Publish models with guarantees, statements and certificates, and keep the ledger of spent budgets."""
