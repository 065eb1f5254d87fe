"""A bounded plan is lowered to the relational form, which names no dialect: from a row up to whole readings."""
