"""A run as one page: what was promised, what was found, when, and what was done to the cluster."""
