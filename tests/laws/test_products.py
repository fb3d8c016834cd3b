"""The laws of `laws.py` and `laws_of_scores.py` hold in the product of models, methods and what data may be like.

The default run draws few cases of each law, always the same; `-m slow` draws hundreds. A failure prints the smallest
case that hypothesis found.
"""

import pytest
from hypothesis import HealthCheck, given, seed, settings

from .drawn import drawn
from .laws_of_scores import LAWS  # and those of fits

pytestmark = pytest.mark.filterwarnings("ignore::bayesgen.BayesgenWarning")
LONG = {
    "a_batch_is_its_fits",
    "a_study_has_the_scores_of_its_fits",
    "nuts_samples_the_posterior_that_exact_has",
    "rows_in_turn_are_scored_by_the_fits_of_the_rows_before",
}
COMPILED = LONG | {"probabilities_are_probabilities", "scores_of_rows_in_turn_add_up_to_the_evidence"}


def check(name, num_cases, part=0, **choices):
    options = settings(
        max_examples=num_cases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    seed(part)(options(given(drawn(**choices))(LAWS[name])))()


@pytest.mark.parametrize("name", [name for name in LAWS if name not in COMPILED])
def test_a_few_cases(name):
    check(name, 8, labels=["all"])


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_a_few_cases_that_compile(name):
    shapes = {"names": ["normal"], "methods": ["Exact"], "sizes": ["many"], "labels": ["all"], "classes": ["declared"]}
    check(name, 2, **shapes, cells=["all"], columns=["plain"])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 4))
@pytest.mark.parametrize("name", LAWS)
def test_many_cases(name, part):
    check(name, 20 if name in LONG else 100, part)
