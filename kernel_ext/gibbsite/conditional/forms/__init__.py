"""A log density → coefficients of a site's sufficient statistics, or the expression that has none."""
