"""Releases of models: proofs, statements, certificates, the ledger of spent budgets, and the published file."""
