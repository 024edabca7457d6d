"""Leave-one-out, or leave-a-group-out, on a grid."""

import numpy as np
from scipy.special import logsumexp


def left_out(prior, each, groups=None):
    """`log p(group | the others)`, of every datum alone unless `groups` has one for each: of log densities
    at the grid, `[grid]` and `[grid, data]`."""
    groups = np.arange(each.shape[1]) if groups is None else groups
    whole = logsumexp(prior + each.sum(1))
    return whole - np.array([logsumexp(prior + each[:, groups != g].sum(1)) for g in np.unique(groups)])
