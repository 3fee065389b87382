"""The checkers on Spark, for histories that do not fit one machine."""
