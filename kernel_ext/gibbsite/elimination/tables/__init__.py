"""Terms of a density → lifted factors: tables over the values of the elements that each row reads."""
