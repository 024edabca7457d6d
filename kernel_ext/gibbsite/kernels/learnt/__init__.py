"""Draws and their gradients → coordinates and a metric in which a posterior is nearly normal."""
