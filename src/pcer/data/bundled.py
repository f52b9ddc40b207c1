"""Which datasets come with the package? UCI Adult, and ProPublica's COMPAS.

Adult: does a person earn more than 50,000 dollars a year (a census survey of 1994)?
COMPAS: is a defendant charged with a new crime within two years? ``benchmarks`` lists
both. To add a feature or an attribute: a row of the literal.
"""

from __future__ import annotations

import operator

from pcer.data.task import REST, Category, DataFile, DatasetTask, GroupRule, Number

ADULT_SHA256 = "88e160fb4c8a80f22678a4d12b7a621a40469e020e1b61210d804125977ca899"
OCCUPATIONS = (
    "Adm-clerical",
    "Armed-Forces",
    "Craft-repair",
    "Exec-managerial",
    "Farming-fishing",
    "Handlers-cleaners",
    "Machine-op-inspct",
    "Other-service",
    "Priv-house-serv",
    "Prof-specialty",
    "Protective-serv",
    "Sales",
    "Tech-support",
    "Transport-moving",
)
ADULT_RACES = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")

ADULT = DatasetTask(
    name="adult",
    title="UCI Adult, income above $50,000",
    files=(DataFile(name="adult.csv.gz", sha256=ADULT_SHA256),),
    features=(
        Number("age"),
        Number("education_num"),
        Category("occupation", OCCUPATIONS),
        Number("hours_per_week"),
        Number("capital_gain"),
        Number("capital_loss"),
    ),
    label=("income", operator.eq, ">50K"),
    attributes={
        "sex": GroupRule.of_each("sex", ("Male", "Female")),
        "race": GroupRule("race", (("White", ("White",)), ("Non-White", REST))),
        "race_original": GroupRule.of_each("race", ADULT_RACES),
    },
    keep=(("occupation", operator.ne, "?"),),
    n_records=46_033,
    outcome="benefit",
    people="workers",
    positive_means="are predicted to earn above $50,000",
    trained="on the Adult data",
    membership_means="you answered the US census survey of 1994",
    positive_label="income above $50,000",
    source="UCI Machine Learning Repository, Adult (Becker and Kohavi, 1996)",
    licence="CC BY 4.0",
    caution="People in a 1994 survey who were not asked about fairness research.",
    notes=(
        "Adult: the 2,809 of 48,842 records without an occupation are left out.",
        "Adult: education enters as its 16 ordered levels, occupation as one indicator "
        "per value.",
    ),
)

COMPAS_SHA256 = "65d59b705158a4b0b3bd75bd13dbef4731c95a73f59d93e9312665c3205ce0c7"
COMPAS_RACES = (
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
    files=(DataFile(name="compas.csv.gz", sha256=COMPAS_SHA256),),
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
        "race_original": GroupRule.of_each("race", COMPAS_RACES),
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
    trained="on the COMPAS data (not the COMPAS score)",
    membership_means="you were arrested in Broward County in 2013 or 2014",
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
