"""The nodes of a cluster, what observers are answered of them, and what strikes them."""
