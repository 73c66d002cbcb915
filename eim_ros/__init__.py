"""Find many of the ways an arm can reach a pose, learn from samples which are preferred, and serve them."""

from __future__ import annotations

from pkgutil import extend_path

# The generated msg, srv and action lie in site-packages also where this folder does not (editable install).
__path__ = extend_path(__path__, __name__)

__version__ = "0.1.0"
