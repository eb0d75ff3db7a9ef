"""Parties on machines of their own: secure sums between them, carried by Flower (docs/federation.md).

What all have agreed on is a `plan`. Every party is a process of its own (`party`), which alone reads its rows and its
signing key and answers messages of the protocol; Flower's node relays them (`relay`), and knows neither. The
`aggregator` gets the sums, and makes the model.
"""
