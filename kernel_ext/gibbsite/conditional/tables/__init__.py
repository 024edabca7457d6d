"""Terms → tables over the values of the elements that each row reads; their rows, where they are wanted."""
