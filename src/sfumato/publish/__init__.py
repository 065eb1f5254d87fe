"""A table is published once, as noisy blocks of its marginals, and whatever is asked of them afterwards is free.

attributes                      the coded columns: their cells, and how cells are joined to coarser ones
chains                          cells under levels, and the differences between one level and the next
blocks                          the part of a marginal that no smaller one has: exact whole numbers, and what moves them
lifting                         marginals from blocks, and what a query asks of each block
planning                        how much noise each block gets
estimating                      marginals and queries from what was measured, with their variances
half_widths                     how far an estimate may be from the truth
implied                         which cell of a column goes with each cell of one that decides it
consistency                     estimates that a table could have: no cell below zero, all totals alike
cell_values                     what an expression can be in a cell: one value, a range, NULL
cell_functions                  the same, function by function: of numbers, conditions, texts and dates
groups                          which cells each group of a question has
group_totals                    totals of all groups over one marginal, and how far they may be off
bounds                          what no marginal has together is bounded by those that were measured
answering                       a question in SQL, answered from cells
several_releases                two or more releases of one table, read as one
faces                           what the policy says publicly of a published table
synopsis                        all of it, as people hold it
zip_files                       files in which nothing is left to choose
sealed_files                    one way to write and read all kinds of them
files                           one file for ever: a zip of a manifest and of whole numbers
mwem                            a model that is fitted step by step to what it gets most wrong
published_files                 such a model, as people hold it
online                          an online session: gates between the exact counts and a public hypothesis
verifying                       what anybody can check of it
"""
