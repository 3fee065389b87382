"""Max-Q: what a RocketMQ cluster keeps and loses under faults.

In a checkout the packages lie beside this folder, and here are links to them; a wheel holds them.
"""
