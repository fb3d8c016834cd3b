"""What a fit shows of itself, by name: for its text, and for notebooks."""

from bayesgen.describe import Entries, amount, counted, quote_some, shapes
from bayesgen.families import LatentVariableFamily
from bayesgen.generative import HIDDEN_VARIABLES, site_entries
from bayesgen.statistics import LatentLikelihood

from .trained import TrainedProgram

MOST_PRIORS = 5  # priors that are shown, those of other blocks being in fit.prior
PATHS = {"whitened": "coordinates rescaled by the curvature at the mode"}


def entries_of_fit(fit: TrainedProgram) -> Entries:
    """The entries of a fit by name."""
    about_draws, path = fit.posterior.described, fit.attributes.get("path")
    kind = ", a point" if fit.posterior.is_point else " of each draw" if fit.is_sampled else ", posterior means"
    return {
        "method": fit.method_in_words,
        "rows (total weight)": amount(fit.attributes.get("total_weight")),
        "columns": counted(fit.schema.columns or fit.program.attributes),
        "components" if fit.concrete.class_axis == "component" else "classes": counted(fit.classes),
        "rows without labels (weight)": _unlabelled_rows(fit),
        **recognised(fit),
        **_priors(fit),
        "log evidence": amount(fit.log_evidence),
        "approximate log evidence, up to a constant of rows and columns": amount(fit.approximate_log_evidence),
        "integrated out": ", ".join(fit.attributes.get("integrated_out", ())) or None,
        "draws": f"{about_draws}; {PATHS.get(str(path), path)}" if about_draws else None,
        f"parameters{kind}": shapes(fit.parameters, skip=2 if fit.is_sampled else 0),
        "next": _next_step(fit),
    }


def recognised(fit: TrainedProgram) -> dict[str, str | None]:
    """How the sites of the program enter the fit: by closed forms, by sufficient statistics, or row by row."""
    if fit.prior is None:
        sites = site_entries(fit.attributes.get("why_row_by_row", {}), fit.attributes.get("cross_products", ()))
        return {**sites, "closed form": fit.attributes.get("closed_form")}
    families, likelihoods = fit.prior.items(), fit.concrete.statistics(fit.schema)
    is_open = {name: bool(prior.hierarchical) or isinstance(prior, LatentVariableFamily) for name, prior in families}
    condition = "closed form" if fit.log_evidence is not None else "closed form, where no cell or label is missing"
    return {
        condition: ", ".join(name for name in is_open if not is_open[name]),
        **site_entries(
            {
                name: HIDDEN_VARIABLES * isinstance(likelihoods.get(name), LatentLikelihood)
                for name in is_open
                if is_open[name]
            }
        ),
    }


def _priors(fit: TrainedProgram) -> dict[str, str | None]:
    """The prior of each family, with those of its numbers that come from the data."""
    if not fit.method.has_prior:
        return {"prior": f"{type(fit.method).__name__}() uses none"}
    if fit.prior is None:
        return {"prior": f"as the program states it, of {', '.join(fit.program.latents)}"}
    *priors, (last, remedy) = fit.prior.entries.items()
    more = f"{len(priors) - MOST_PRIORS} more in fit.prior" if len(priors) > MOST_PRIORS else None
    return {f"prior of {names}": text for names, text in priors[:MOST_PRIORS]} | {"other priors": more, last: remedy}


def _unlabelled_rows(fit: TrainedProgram) -> str | None:
    """The weight of the rows without labels, and the classes of which no row has one."""
    weight, unnamed = (fit.attributes.get(name) for name in ("total_weight_unlabelled", "classes_without_labels"))
    lacking = f"; no row has the label {quote_some(unnamed)}" if unnamed else ""
    return None if weight is None else f"{amount(weight)}{lacking}"


def _next_step(fit: TrainedProgram) -> str:
    """How to predict for new rows, and what else to look at."""
    has_answers = len(fit.classes) > 0 or fit.concrete.response is not None
    steps = {
        "fit.diagnose()": fit.is_sampled,
        "fit.relabel()": not fit.posterior.is_identified,
        f"predict(fit, X, rule={'PlugIn()' if fit.posterior.is_point else 'BMA()'})": has_answers,
        "fit.log_joint(X)": not has_answers,
        "fit.summary(), fit.to_datatree()": True,
    }
    return ", ".join(step for step, is_for_this in steps.items() if is_for_this)
