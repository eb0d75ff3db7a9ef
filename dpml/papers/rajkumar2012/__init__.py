"""Code that is specific to Rajkumar & Agarwal 2012."""
