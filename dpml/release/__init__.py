"""From an experiment to a release: the ledger of the spent budget, and the published model."""
