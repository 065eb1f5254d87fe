"""Audit a whole policy: visible outcomes, exact sensitivities, noise and releases; injected faults must be detected.

curator_audits     the audit of a policy on neighbouring generated tables, query by query
curator_findings   the results: tests, their power, doubts; the report page
planted_faults     faulty twins of the audited path, each with one injected fault
audit_testbeds     engines and curators over the generated tables; repeated noise draws over the same totals, and a test
                   that no two numbers of one release share a draw
"""
