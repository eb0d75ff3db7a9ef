"""What belongs to Kang, Liu & Wang 2019 and nothing else."""
