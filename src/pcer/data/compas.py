"""ProPublica COMPAS: is a defendant charged with a new crime within two years?

``benchmarks`` lists it. To add a feature or an attribute: a row of the literal.
"""

from __future__ import annotations

import operator

from pcer.data.task import REST, Category, DataFile, DatasetTask, GroupRule, Number

SHA256 = "65d59b705158a4b0b3bd75bd13dbef4731c95a73f59d93e9312665c3205ce0c7"
RACES = (
    "African-American",
    "Caucasian",
    "Hispanic",
    "Other",
    "Asian",
    "Native American",
)

COMPAS = DatasetTask(
    name="compas",
    title="ProPublica COMPAS, charged again within two years",
    files=(DataFile(name="compas.csv.gz", sha256=SHA256),),
    features=(
        Number("age"),
        Number("priors_count"),
        Category("c_charge_degree", ("F", "M")),
        Number("juv_fel_count"),
        Number("juv_misd_count"),
        Number("juv_other_count"),
    ),
    label=("two_year_recid", operator.eq, 1),
    attributes={
        "race": GroupRule(
            "race", (("Other", REST), ("African-American", ("African-American",)))
        ),
        "race_original": GroupRule.of_each("race", RACES),
    },
    keep=(
        ("days_b_screening_arrest", operator.ge, -30),
        ("days_b_screening_arrest", operator.le, 30),
        ("is_recid", operator.ne, -1),
        ("c_charge_degree", operator.ne, "O"),
        ("score_text", operator.ne, "N/A"),
    ),
    n_records=6_172,
    outcome="harm",
    people="defendants",
    positive_means="are predicted to be charged again",
    positive_label="charged with a new crime within two years",
    source="ProPublica, Machine Bias (2016), github.com/propublica/compas-analysis",
    licence="none stated; public court records published by ProPublica",
    caution=(
        "People arrested in Broward County, 2013-2014; such scores were used in real "
        "decisions about their liberty, and a new charge is not proof of a new crime."
    ),
    notes=(
        "COMPAS: ProPublica's filter leaves 6,172 of 7,214 records.",
        "COMPAS: the label is a new charge within two years, which also reflects "
        "policing.",
    ),
)
