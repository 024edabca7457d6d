"""What a move between two structures does with the elements of sites."""
