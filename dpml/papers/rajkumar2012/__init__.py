"""What belongs to Rajkumar & Agarwal 2012 and nothing else."""
