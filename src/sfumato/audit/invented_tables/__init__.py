"""Tables are invented from what a policy declares, and from nothing else.

neighbouring_tables   tables with one unit that tries every limit
invented_cells        cells: plain ones, ends of ranges, and what no policy wishes for
"""
