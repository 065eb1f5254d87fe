"""Lower a bounded plan to the relational form, which names no dialect: from single rows up to whole readings."""
