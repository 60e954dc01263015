"""Is it a solution?  Residuals from the definition."""
