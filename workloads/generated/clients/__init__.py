"""What clients do, with the true state of what they use."""
