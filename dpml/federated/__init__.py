"""Train a model by secure sums of several parties, each on its own machine (docs/federation.md).

All parties sign a `plan`. Each `party` alone reads its rows and its signing key, and has a `link` to the `aggregator`,
which receives the sums and computes the model.
"""
