"""What is claimed of random models."""
