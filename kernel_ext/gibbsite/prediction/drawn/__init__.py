"""What is to be done at each site → draws: the model run forward, vectorised, in chunks."""
