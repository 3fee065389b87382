"""Histories that are generated, not recorded: correct but for the anomalies that are asked for.

A generator holds the true state of a cluster (`cluster`) and of what its clients use (`queue`,
`locks`, `offsets`), draws operations in rounds (`rounds`), and plants anomalies of known names
(`kinds`). It shares no code with checkers, so that planter and judge cannot be wrong together.
"""
