"""Many data sets of one model, or one less some of its data → one compiled program, a run for each."""
