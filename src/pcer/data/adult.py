"""UCI Adult: does a person earn more than 50,000 dollars a year?

From the census survey of 1994. ``benchmarks`` lists it. To add a feature or an
attribute: a row of the literal.
"""

from __future__ import annotations

import operator

from pcer.data.task import REST, Category, DataFile, DatasetTask, GroupRule, Number

SHA256 = "88e160fb4c8a80f22678a4d12b7a621a40469e020e1b61210d804125977ca899"
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
RACES = ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other")

ADULT = DatasetTask(
    name="adult",
    title="UCI Adult, income above $50,000",
    files=(DataFile(name="adult.csv.gz", sha256=SHA256),),
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
        "race_original": GroupRule.of_each("race", RACES),
    },
    keep=(("occupation", operator.ne, "?"),),
    n_records=46_033,
    outcome="benefit",
    people="workers",
    positive_means="are predicted to earn above $50,000",
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
