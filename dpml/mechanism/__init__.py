"""How a release is carried out: what is sent, how the noise of it is shared, and who adds it up."""
