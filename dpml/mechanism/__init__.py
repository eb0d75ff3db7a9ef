"""How a release is computed: which messages are sent, how their noise is shared, and how sums are carried out."""
