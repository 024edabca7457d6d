"""Programs → programs that compute the same: rewritings of equations, alone or all in one sweep."""
