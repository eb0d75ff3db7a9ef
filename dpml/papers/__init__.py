"""Code that is specific to one paper: claims, curves and bounds."""
