"""Offline releases: a table is published once, as noisy marginals or a model, and all later questions are free.

marginals   measurement and estimation
    attributes      coded columns: their cells, levels that join cells to coarser ones, a table's public face, and
                    functional dependencies between columns
    chains          hierarchies of cells, and the differences between one level and the next
    blocks          the part of a marginal that no smaller one has: exact integers, their sensitivity, and lifting
    planning        the noise of each block, optimised for a workload and a price
    measuring       one reading, one batch, one charge for all marginals; several releases combined
    estimating      least-squares estimates of marginals and queries, with their variances and bounds on their error;
                    projection onto counts that a table could have
    group_totals    totals of all groups over one marginal, and their error; bounds on totals over columns that were
                    not measured together
    charge_verification
                    what anybody can verify of a release
cells       SQL over cells
    cell_values, cell_functions, cell_numbers    interval evaluation of expressions on cells
    groups          GROUP BY over cells
    answering       a question in SQL, answered from cells
graph       graphical models: junction trees, belief propagation, fitting
synthesis   adaptive methods that buy a model step by step: AIM, MST, MWEM, independent columns
files       sealed files of synopses and models
synopsis            noisy marginals as people hold them
synthetic           a model and rows sampled from it, as people hold them
sampling            sampling of rows from a model
mwem                multiplicative weights with the exponential mechanism, and what was released for a model
published_files     reading any published file; fitted models as people hold them
online              online sessions: gates between the exact counts and a public hypothesis
scoring             a candidate table, scored against private rows
tab_steps           charged steps of an adaptive release
"""
