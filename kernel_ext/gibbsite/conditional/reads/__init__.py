"""Terms → which elements of a site each of them reads, and sums of terms onto those elements."""
