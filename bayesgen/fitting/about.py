"""What a fit tells of itself."""

from bayesgen.describe import amount, counted, quote_some, shapes

from .reading import TrainedOnRows


def facts_of(fit: TrainedOnRows) -> dict[str, str | None]:
    """What `repr` tells of a fit, by name."""
    about_draws = fit.posterior.described
    return {
        "method": repr(fit.method),
        "rows (total weight)": amount(fit.attributes.get("total_weight")),
        "columns": counted(fit.schema.columns or fit.program.attributes),
        "components" if fit.concrete.class_axis == "component" else "classes": counted(fit.classes),
        "rows without labels (weight)": _about_labels(fit),
        "log evidence": amount(fit.log_evidence),
        "approximate log evidence, up to a constant of rows and columns": amount(fit.approximate_log_evidence),
        "draws": f"{about_draws}, path {fit.attributes.get('path')!r}" if about_draws else None,
        "parameters": shapes(fit.parameters, skip=2 if fit.is_sampled else 0),
        "next": f"{_question(fit)}, fit.parameters, fit.to_datatree()",
    }


def _about_labels(fit: TrainedOnRows) -> str | None:
    """The weight of the rows without labels, and the classes of which no row has one."""
    weight, unnamed = (fit.attributes.get(name) for name in ("total_weight_unlabelled", "classes_without_labels"))
    lacking = f"; no row has the label {quote_some(unnamed)}" if unnamed else ""
    return None if weight is None else f"{amount(weight)}{lacking}"


def _question(fit: TrainedOnRows) -> str:
    """How to ask it of new rows."""
    if len(fit.classes) == 0 and fit.concrete.response is None:
        return "fit.log_joint(X)"
    order = "" if fit.posterior.has_order else "fit.relabel(), "
    return f"{order}predict(fit, X, rule={'PlugIn()' if fit.posterior.is_point else 'BMA()'})"
