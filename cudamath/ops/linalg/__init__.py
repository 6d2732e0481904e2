"""Linear algebra: products, decompositions, solvers, norms."""
