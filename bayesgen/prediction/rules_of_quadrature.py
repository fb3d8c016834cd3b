"""The rule of Gauss and Kronrod with 7 and 15 points, and antiderivatives of what is known at its nodes."""

import numpy as np
from numpy.polynomial import legendre

from bayesgen.typing import Float

# Piessens et al. (1983), QUADPACK, routine QK15: nodes in [0, 1], weights of Kronrod, weights of Gauss
_HALF = np.array(
    [
        [0.991455371120812639206854697526329, 0.022935322010529224963732008058970, 0.0],
        [0.949107912342758524526189684047851, 0.063092092629978553290700663189204, 0.129484966168869693270611432679082],
        [0.864864423359769072789712788640926, 0.104790010322250183839876322541518, 0.0],
        [0.741531185599394439863864773280788, 0.140653259715525918745189590510238, 0.279705391489276667901467771423780],
        [0.586087235467691130294144691693331, 0.169004726639267902826583426598550, 0.0],
        [0.405845151377397166906606412076961, 0.190350578064785409913256402421014, 0.381830050505118944950369775488975],
        [0.207784955007898467600689403773245, 0.204432940075298892414161999234649, 0.0],
        [0.0, 0.209482141084727828012999174891714, 0.417959183673469387755102040816327],
    ]
)
NODES: Float[np.ndarray, " 15"] = np.concatenate([-_HALF[:, 0], _HALF[-2::-1, 0]])
KRONROD: Float[np.ndarray, " 15"] = np.concatenate([_HALF[:, 1], _HALF[-2::-1, 1]])
GAUSS: Float[np.ndarray, " 15"] = np.concatenate([_HALF[:, 2], _HALF[-2::-1, 2]])
_DEGREE = len(NODES) - 1
_COEFFICIENTS = np.linalg.inv(legendre.legvander(NODES, _DEGREE))  # of Legendre's polynomials, from values at the nodes


def interpolants(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """What values at the nodes weigh in the polynomial through them at x."""
    return legendre.legvander(x, _DEGREE) @ _COEFFICIENTS


def antiderivatives(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "... 15"]:
    """What values at the nodes weigh in the integral from -1 to x of the polynomial through them."""
    polynomials = legendre.legvander(x, _DEGREE + 1)
    degrees = np.arange(1, _DEGREE + 1)
    integrals = (polynomials[..., 2:] - polynomials[..., :-2]) / (2 * degrees + 1)
    return np.concatenate([polynomials[..., :1] + polynomials[..., 1:2], integrals], -1) @ _COEFFICIENTS
