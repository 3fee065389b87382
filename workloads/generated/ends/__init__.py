"""How a history ends, as a run does: healed, probed, read again, observed, stores read."""
