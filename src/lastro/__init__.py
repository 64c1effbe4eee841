"""Lastro measures what virtualization costs a network function and what isolation saves.

`lastro.open(DIR)` loads a campaign into Python: see docs/howto-python.md."""

__version__ = "0.1.0"
__all__ = ["Campaign", "open"]

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` is not cheap
    from lastro.api import Campaign, open


def __getattr__(name: str) -> object:
    """Import `lastro.api` on the first use of one of its names, so that commands start without it."""
    if name not in __all__:
        raise AttributeError(f"module 'lastro' has no attribute '{name}'")
    from lastro import api

    attribute: object = getattr(api, name)
    return attribute
