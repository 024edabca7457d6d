"""Conditionals and kernels → schedules that one could run, what each promises, and a choice."""
