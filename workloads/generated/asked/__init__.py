"""What is asked of a generator: a request, the kinds of anomalies, and where they were planted."""
