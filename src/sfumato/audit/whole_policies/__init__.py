"""Whole policies are audited: what is seen, exact changes, noise and releases; planted faults must be caught.

curator_audits     a policy on invented neighbours, question by question
curator_findings   what was tried, what it could have seen, and what is in doubt; the same as a page
planted_faults     twins of the audited path, each with one thing broken
audit_stages       invented tables, opened to be audited; the noise of one release, drawn very often over the same
                   totals
"""
