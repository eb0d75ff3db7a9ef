"""Train a model by secure sums of several parties, each on its own machine (docs/federation.md).

All parties sign a `plan`. Each `party` is a process on its own machine, which alone reads the party's rows and signing
key, and has a `link` to the `aggregator`. The aggregator receives the sums and computes the model.
"""
