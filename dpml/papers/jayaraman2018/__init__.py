"""Code that is specific to Jayaraman, Wang, Evans & Gu 2018."""
