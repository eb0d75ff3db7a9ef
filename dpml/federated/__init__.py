"""Federations: parties on their own machines compute a model from secure sums (docs/federation.md).

All parties have agreed on a `plan`. Each `party` is a separate process; only this process reads the party's rows and
signing key. It has its own `link` to the `aggregator`, whose protocol messages it answers. The aggregator receives the
sums and computes the model.
"""
