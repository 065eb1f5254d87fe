"""End-to-end audits of queries under a policy, on neighbouring generated tables.

release_sampling       repeated releases of one query in two worlds, one process for each world
neighbouring_outcomes  everything visible of an answer except its noise; exact totals of neighbours, compared with the
                       claimed sensitivity
generated_questions    random queries from the supported SQL grammar; queries generated from a policy's declarations,
                       and queries from an owner's file
"""
