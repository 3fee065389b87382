"""Runs of the hunt without controllers: their decision tables, and what is known of them."""
