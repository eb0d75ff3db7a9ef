"""From an experiment to a release: the ledger of what has been spent, and the model that is published."""
