"""Records → `Tape`: asked, sliced, replayed, differentiated and shown."""
