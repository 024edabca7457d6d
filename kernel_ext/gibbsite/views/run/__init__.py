"""A run → dashboard, pictures, report and words."""
