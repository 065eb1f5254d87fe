"""An engine reads rows: plans are lowered to a relational form, written as SQL, and run by the driver of a database.

``seam`` says what the rest of the system asks of an engine, and ``opening`` finds the engine for a policy. Nothing
outside this package names a driver.
"""
