"""What people ask for, in the words of their data → what is known, what is new, what is done at each site."""
