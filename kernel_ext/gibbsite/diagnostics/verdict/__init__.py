"""Measures → what a person is told of a run: notices, advice, hints and a verdict."""
