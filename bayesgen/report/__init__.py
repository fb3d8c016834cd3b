"""Results as people read them."""

from .display import can_encode, show

__all__ = ["can_encode", "show"]
