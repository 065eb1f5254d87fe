"""Privacy attacks: what an adversary learns about one person from exact, coarsened or private answers.

answerers          oracles for sums over groups: exact, rounded, suppressed, noisy, or a real curator
ceilings           upper bounds on any attack's success against answers with a privacy guarantee
differencing       differencing two totals that differ by one person; over many questions, or through a table's
                   totals; averaging repeated answers to one question; whether an answer is withheld, read as an
                   answer; suppressed small cells of a table, with complementary suppression
reconstruction     database reconstruction of everyone's bit from sums over random groups; solvers for values that fit
                   many answers: least squares, linear programming; reconstruction of everyone's ancestry from small
                   tables of their block
linkage            re-identification by columns that two tables share
membership         membership inference from counts and a person's own values; membership and attribute inference from
                   published rows; test scores in two worlds, and their ROC curves under the trade-off function
attribute          attribute inference from counts, with the person in the table and without
policy_attacks     attacks that spend a policy's whole budget on one simulated target
policy_pages       the report page of attacks on a policy
game               a game: guess one person's secret from counts that you choose
findings           success of an attack beside blind guessing and the ceiling; plots; sweeps over one parameter;
                   many runs of an attack in one question
"""

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    NoisyAnswers,
    OverlapControlledAnswers,
    PrivateAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    UncountedAnswers,
    invented_bits,
    private_answers,
)
from sfumato.attacks.attribute import attribute
from sfumato.attacks.ceilings import (
    epsilon_lower_bound,
    guess_ceiling,
    max_correct,
    power_ceiling,
    replacement_guarantee,
)
from sfumato.attacks.differencing import (
    CrossTable,
    average,
    averaging,
    averaging_by_times,
    cell_bounds,
    combine_totals,
    difference,
    differencing,
    differencing_by_questions,
    draw_separated_groups,
    estimate_target_bit,
    linked_tables,
    read_refusal,
    refusals,
    suppressed_table,
    suppression,
    table_groups,
)
from sfumato.attacks.findings import Finding, Findings, Sweep
from sfumato.attacks.linkage import Person, homogeneous, linkage, linkage_people
from sfumato.attacks.membership import Scores, TracingResult, attribute_of_rows, membership, membership_of_rows
from sfumato.attacks.policy_attacks import PolicyAttack, policy
from sfumato.attacks.reconstruction import (
    Method,
    census,
    information_recovery,
    reconstruct,
    reconstruction,
    reconstruction_by_noise,
)

__all__ = [
    "Answerer",
    "CrossTable",
    "ExactAnswers",
    "Finding",
    "Findings",
    "Method",
    "NoisyAnswers",
    "OverlapControlledAnswers",
    "Person",
    "PolicyAttack",
    "PrivateAnswers",
    "RoundedAnswers",
    "Scores",
    "SuppressedAnswers",
    "Sweep",
    "TracingResult",
    "UncountedAnswers",
    "attribute",
    "attribute_of_rows",
    "average",
    "averaging",
    "averaging_by_times",
    "cell_bounds",
    "census",
    "combine_totals",
    "difference",
    "differencing",
    "differencing_by_questions",
    "draw_separated_groups",
    "epsilon_lower_bound",
    "estimate_target_bit",
    "guess_ceiling",
    "homogeneous",
    "information_recovery",
    "invented_bits",
    "linkage",
    "linkage_people",
    "linked_tables",
    "max_correct",
    "membership",
    "membership_of_rows",
    "policy",
    "power_ceiling",
    "private_answers",
    "read_refusal",
    "reconstruct",
    "reconstruction",
    "reconstruction_by_noise",
    "refusals",
    "replacement_guarantee",
    "suppressed_table",
    "suppression",
    "table_groups",
]
