"""Attacks show what can be learnt of one person from answers: exact, coarse, or private.

answerers          who is asked for sums over groups: exact, coarse, noisy, or a real curator
ceilings           how far any attack can come on answers that keep a guarantee
differencing       two totals that differ by one person; the same difference over many questions, or through a table's
                   totals
suppression        small cells of a table that are withheld, and second cells with them
averaging          the same question, again and again
reconstruction     everybody's bit from many sums over random groups
census             everybody's ancestry from small tables of their block
linkage            names put back by columns that two tables share
membership         who is in a table, from counts of it and their own values
tracing_rows       the same from published rows, and the secret of whoever is looked for
attribute          a secret from counts, with the person in the table and without them
policy_attacks     the whole budget of a policy on one invented target; a policy over invented people
policy_pages       the same as a page to take to a lawyer; one thing that was guessed, from exact answers and from a
                   policy's
scores             tests in two worlds, and their curves under the trade-off function
game               a game: guess one person's secret from counts that you choose
fitting            values that agree with many answers: least squares, linear programmes
findings           what an attack reached, beside blind guessing and the ceiling; the same, drawn; an attack at many
                   sizes of one thing; many runs of an attack in one question
"""

from sfumato.attacks.answerers import (
    Answerer,
    ComparedAnswers,
    ExactAnswers,
    NoisyAnswers,
    PrivateAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    UncountedAnswers,
    invented_bits,
    private_answers,
)
from sfumato.attacks.attribute import attribute
from sfumato.attacks.averaging import average, averaging, averaging_by_times
from sfumato.attacks.ceilings import for_replacing, guess_ceiling, least_proven, most_right, power_ceiling
from sfumato.attacks.census import census
from sfumato.attacks.differencing import (
    CrossTable,
    difference,
    differencing,
    differencing_by_questions,
    isolate,
    put_together,
    spread_groups,
    table_groups,
)
from sfumato.attacks.findings import Finding, Findings, Sweep
from sfumato.attacks.linkage import Person, homogeneous, linkage, linkage_people
from sfumato.attacks.membership import membership
from sfumato.attacks.policy_attacks import PolicyAttack, policy
from sfumato.attacks.reconstruction import Method, reconstruct, reconstruction, reconstruction_by_noise
from sfumato.attacks.scores import Scores, Traced
from sfumato.attacks.suppression import cell_bounds, linked_tables, suppressed_table, suppression
from sfumato.attacks.tracing_rows import attribute_of_rows, membership_of_rows

__all__ = [
    "Answerer",
    "ComparedAnswers",
    "CrossTable",
    "ExactAnswers",
    "Finding",
    "Findings",
    "Method",
    "NoisyAnswers",
    "Person",
    "PolicyAttack",
    "PrivateAnswers",
    "RoundedAnswers",
    "Scores",
    "SuppressedAnswers",
    "Sweep",
    "Traced",
    "UncountedAnswers",
    "attribute",
    "attribute_of_rows",
    "average",
    "averaging",
    "averaging_by_times",
    "cell_bounds",
    "census",
    "difference",
    "differencing",
    "differencing_by_questions",
    "for_replacing",
    "guess_ceiling",
    "homogeneous",
    "invented_bits",
    "isolate",
    "least_proven",
    "linkage",
    "linkage_people",
    "linked_tables",
    "membership",
    "membership_of_rows",
    "most_right",
    "policy",
    "power_ceiling",
    "private_answers",
    "put_together",
    "reconstruct",
    "reconstruction",
    "reconstruction_by_noise",
    "spread_groups",
    "suppressed_table",
    "suppression",
    "table_groups",
]
