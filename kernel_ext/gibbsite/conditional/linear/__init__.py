"""Sites that are Gaussian together → one precision, eliminated group by group, and one joint draw."""
