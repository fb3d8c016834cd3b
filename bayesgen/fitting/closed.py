"""Tables of log-joints in closed form, for models with conjugate blocks: NumPy only, chunked over rows."""

import numpy as np

CHUNK_ROWS = 8192


def densities_at(conjugate, parameters):
    """Log class probabilities and the blocks' densities at given parameters: (K,), [(block, density, arrays)]."""
    with np.errstate(divide="ignore"):
        log_class_probs = np.log(parameters["class_probs"])
    blocks = []
    for block in conjugate.blocks:
        prefix = f"{block.name}_"
        own = {name: parameters[prefix + name] for name in block.family.parameter_axes()}
        blocks.append((block.name, *block.family.row_density(own)))
    return log_class_probs, blocks


def predictive_densities(conjugate):
    """The same with the parameters integrated out."""
    log_class_probs = np.log(conjugate.class_prior.mean()["probs"])
    return log_class_probs, [(block.name, *block.family.row_predictive()) for block in conjugate.blocks]


def log_joint(densities, attributes):
    """log p(x_i, y = k), (n, K)."""
    log_class_probs, blocks = densities
    num_rows = next(iter(attributes.values())).shape[0]
    out = np.empty((num_rows, len(log_class_probs)))
    with np.errstate(divide="ignore", over="ignore"):
        for start in range(0, num_rows, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            table = log_class_probs
            for name, density, parameters in blocks:
                table = table + density.row_log_prob(parameters, _chunk(attributes[name], rows))
            out[rows] = table
    return out


def _chunk(values, rows):
    part = values[rows]
    return part if hasattr(part, "tocsr") else part.astype(np.float64, copy=False)
