"""Upgrades: what clusters of two releases do, and clusters that go from one to the other."""
