"""Engines read rows: plans are lowered to a relational form, rendered as SQL, and run by the driver of a database.

``protocols`` defines what the rest of the system requires of an engine, and ``opening`` finds the engine for a policy.
Nothing outside this package names a driver.
"""
