"""What belongs to Hamm, Cao & Belkin 2016 and nothing else."""
