"""The pages of tzmark conform: one result, or the matrix of several."""
