"""Parties on machines of their own: secure sums between them (docs/federation.md).

A `plan` is what all parties have agreed on. Every party is a separate process (`party`); only that process reads the
party's rows and signing key, and it answers messages of the protocol, which a `link` of its own carries. The
`aggregator` receives the sums and computes the model.
"""
