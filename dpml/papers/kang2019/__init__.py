"""Code that is specific to Kang, Liu & Wang 2019."""
