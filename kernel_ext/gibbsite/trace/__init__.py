"""Programs: walked, recorded, replayed."""
