"""What belongs to one paper and nothing else: claims, curves and bounds."""
