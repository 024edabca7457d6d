"""Discrete and continuous sites that decide each other → one update of both, or why there is none."""
