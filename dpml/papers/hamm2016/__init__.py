"""Code that is specific to Hamm, Cao & Belkin 2016."""
