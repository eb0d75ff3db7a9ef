"""Code that is specific to Imtiaz, Mohammadi & Sarwate 2019."""
