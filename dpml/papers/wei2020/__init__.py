"""Wei et al. 2020: noising before model aggregation (NbAFL)."""
