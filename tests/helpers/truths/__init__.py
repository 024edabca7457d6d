"""Answers found another way: perturbation, plain evaluation, known moments, Geweke's test."""
