"""Rows of a history as columns, on their way to a file."""
