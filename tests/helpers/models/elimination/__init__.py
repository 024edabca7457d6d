"""Small models with discrete sites to be summed out: by structure, from practice, and random ones."""

from helpers.models.elimination.practice import MORE
from helpers.models.elimination.programs import TERMS, random_case
from helpers.models.elimination.structures import MODELS

__all__ = ["MODELS", "MORE", "TERMS", "random_case"]
