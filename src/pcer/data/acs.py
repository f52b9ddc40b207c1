"""ACS Income 2018: does a person earn more than 50,000 dollars a year?

The task ACSIncome of folktables, for California, Texas and New York. ``benchmarks``
lists it. To add a feature or an attribute: a row of the literal.
"""

from __future__ import annotations

import operator
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pcer.data.readers import Columns, read_columns
from pcer.data.task import (
    REST,
    Bands,
    Category,
    DataFile,
    DatasetTask,
    GroupRule,
    Number,
    holds,
    require_count,
)
from pcer.errors import InputError

RACES = (
    "White",
    "Black or African American",
    "American Indian",
    "Alaska Native",
    "American Indian or Alaska Native, tribe not specified",
    "Asian",
    "Native Hawaiian or other Pacific Islander",
    "Some other race",
    "Two or more races",
)
RACE_CODES = {race: code for code, race in enumerate(RACES, 1)}

# Major groups of the 2018 Census occupation codes, by the PUMS data dictionary's
# prefixes, and regions of birth: the first code of each, and after the last of them.
OCCUPATIONS = (
    "10 management, 500 business, 800 finance, 1000 computing and mathematics, "
    "1300 engineering, 1600 science, 2000 community service, 2100 law, 2200 education, "
    "2600 arts and media, 3000 medicine, 3600 health support, 3700 protection, "
    "4000 food, 4200 cleaning, 4300 personal service, 4700 sales, 5000 office, "
    "6000 farming, 6200 construction, 6800 extraction, 7000 repair, 7700 production, "
    "9000 transport, 9800 military, 9900"
)
BIRTHPLACES = (
    "1 United States, 60 US island areas, 100 Europe and former USSR, 200 Asia, "
    "300 Northern America, 303 Latin America, 400 Africa, 500 Oceania, 600"
)

# The ACSIncome filter, and how many of each state's people it keeps as published.
ADULT_FILTER = (
    ("AGEP", operator.gt, 16),
    ("PINCP", operator.gt, 100),
    ("WKHP", operator.gt, 0),
    ("PWGTP", operator.ge, 1),
)
STATES = {"ca": 195_665, "tx": 135_924, "ny": 103_021}
COPY_SHA256 = "7002911a0cffcbc135526ade42fe4e66fdad6a06cfb17aeff8b79dfb44da82d3"
PUMS_URL = "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/"


def read_state(path: Path, columns: Iterable[str]) -> Columns:
    """Columns of one state's person file, zipped as the Census Bureau publishes it."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            (person_file,) = [name for name in names if name.startswith("psam_p")]
            with archive.open(person_file) as stream:
                return read_columns(stream, columns)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise InputError(
            f"{path} is not a zipped PUMS person file; remove it and fetch it again."
        ) from error


def check_state(path: Path, *, n_kept: int) -> None:
    """Raise InputError unless the filter keeps the published number of people."""
    is_kept = holds(read_state(path, ACS_INCOME.columns), *ADULT_FILTER)
    n_found = int(is_kept.sum())
    require_count(path, n_found, n_kept, "people that the ACSIncome filter keeps")


ACS_INCOME = DatasetTask(
    name="acs",
    title="ACS Income 2018 (CA, TX, NY), income above $50,000",
    files=tuple(
        DataFile(
            name=f"csv_p{state}.zip",
            url=f"{PUMS_URL}csv_p{state}.zip",
            check=partial(check_state, n_kept=n_kept),
        )
        for state, n_kept in STATES.items()
    ),
    read=read_state,
    features=(
        Number("AGEP"),
        Category("COW", tuple(range(1, 9))),
        Number("SCHL"),
        Category("MAR", tuple(range(1, 6))),
        Bands("OCCP", OCCUPATIONS),
        Bands("POBP", BIRTHPLACES),
        Category("RELP", tuple(range(18))),
        Number("WKHP"),
    ),
    label=("PINCP", operator.gt, 50_000),
    attributes={
        "race": GroupRule("RAC1P", (("White", (1,)), ("Non-White", REST))),
        "sex": GroupRule.of_each("SEX", {"Male": 1, "Female": 2}),
        "race_original": GroupRule.of_each("RAC1P", RACE_CODES),
    },
    keep=ADULT_FILTER,
    subsample=50_000,
    n_records=50_000,
    outcome="benefit",
    people="workers",
    positive_means="are predicted to earn above $50,000",
    trained="on the ACS data of 2018",
    membership_means="you answered the American Community Survey of 2018",
    positive_label="income above $50,000",
    source=(
        "U.S. Census Bureau, ACS PUMS 2018 1-Year; task of Ding et al. 2021 "
        "(folktables)"
    ),
    licence="public; the Census Bureau asks users not to try to identify people",
    caution="People in a mandatory survey who were not asked about fairness research.",
    notes=(
        "ACS: 50,000 records drawn with a fixed seed from California, Texas and New "
        "York.",
        "ACS: occupations enter as 25 major groups, birthplaces as 8 regions; codes "
        "that are missing have an indicator of their own.",
    ),
)

# A public 46 % sample of the same table: filtered already, the label instead of the
# income.
ACS_INCOME_COPY = replace(
    ACS_INCOME,
    files=(DataFile(name="acs_income_2018_ca_tx_ny.csv.gz", sha256=COPY_SHA256),),
    read=read_columns,
    label=("PINCP_GT_50K", operator.eq, 1),
    keep=(("AGEP", operator.gt, 16), ("WKHP", operator.gt, 0)),
    notes=(
        *ACS_INCOME.notes,
        "ACS: drawn from a copy that holds 199,877 of the 434,610 records of the three "
        "states, a random 46% stratified by state.",
    ),
)
