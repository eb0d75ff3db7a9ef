"""What belongs to Imtiaz, Mohammadi & Sarwate 2019 and nothing else."""
