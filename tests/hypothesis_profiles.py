"""Profiles of Hypothesis, chosen by the environment variable `HYPOTHESIS_PROFILE`, and the numbers of their examples.

| profile | examples of a property | used by |
| --- | --- | --- |
| `quick` | 5 | `make test` |
| `thorough` | 25 | `make test-all`, `make unit`, `make mutants`; the default |
| `deep` | 1000, new seeds each time | `HYPOTHESIS_PROFILE=deep make unit`, `make small-worlds` |
| `simplest` | 1 | `make coverage`: what must be covered needs explicit examples, because drawn ones change |

No profile has a limit of time: how fast an example is drawn and tested depends on what else the machine does.
"""

import os

from hypothesis import HealthCheck, settings

THOROUGH_EXAMPLES = 25


def load() -> None:
    """Register the profiles and load that of the environment; before any test module is imported."""
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", untimed, derandomize=True, max_examples=5)
    settings.register_profile("thorough", untimed, derandomize=True, max_examples=THOROUGH_EXAMPLES)
    settings.register_profile("deep", untimed, max_examples=1000)
    settings.register_profile(
        "simplest",
        derandomize=True,
        max_examples=1,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "thorough"))


def count_examples(thorough: int) -> int:
    """Number of examples, in the loaded profile, of a property that needs its own number in the profile `thorough`."""
    return scale(thorough, settings().max_examples)


def scale(thorough: int, examples: int) -> int:
    """Number of examples of a property in a profile.

    A shorter profile has the same share of them as of other properties; a longer one has at least as many.

    Args:
        thorough: Number of examples in the profile `thorough`.
        examples: Number of examples of other properties in the profile.
    """
    if examples > THOROUGH_EXAMPLES:
        return max(thorough, examples)
    share = thorough * examples // THOROUGH_EXAMPLES
    return max(2, share) if examples > 1 else 1
