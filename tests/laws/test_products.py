"""The laws of `laws.py` hold in the product of models, methods and what data may be like.

The default run draws few cases of each law, always the same; `-m slow` draws hundreds. A failure prints the smallest
case that hypothesis found.
"""

import pytest
from hypothesis import HealthCheck, given, settings

from .drawn import drawn
from .laws import LAWS

pytestmark = pytest.mark.filterwarnings("ignore::bayesgen.BayesgenWarning")
COMPILED = {"a_batch_is_its_fits", "scores_of_rows_in_turn_add_up_to_the_evidence", "probabilities_are_probabilities"}


def check(name, num_cases, **choices):
    options = settings(
        max_examples=num_cases,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    options(given(drawn(**choices))(LAWS[name]))()


@pytest.mark.parametrize("name", [name for name in LAWS if name not in COMPILED])
def test_a_few_cases(name):
    check(name, 8, labels=["all"])


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_a_few_cases_that_compile(name):
    shapes = {"names": ["normal"], "methods": ["Exact"], "sizes": ["many"], "labels": ["all"], "classes": ["declared"]}
    check(name, 2, **shapes, cells=["all"], columns=["plain"])


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_many_cases(name):
    check(name, 60 if name in COMPILED else 300)
