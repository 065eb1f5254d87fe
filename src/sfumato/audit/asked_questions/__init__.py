"""Questions are asked over the whole path of a policy, on invented tables that are neighbours.

asked_worlds         releases of one question in two worlds; processes that buy releases, one for each world
replayed_totals      exact totals of neighbours, beside what the noise was made for
compared_outcomes    what anybody sees of an answer but its noise; answers as rows of numbers
drawn_questions      questions drawn from the grammar of what can be asked; questions from what a policy declares, and
                     from an owner's file
"""
