"""From a call of solve to its records."""
