"""What the package offers of predictions, for runs that ask and for people."""

from gibbsite.prediction.batched.folds import left_out
from gibbsite.prediction.batched.many import Many, many
from gibbsite.prediction.kept import packed, unpacked
from gibbsite.prediction.prediction import Prediction
from gibbsite.prediction.uses.checking import Checks, checks
from gibbsite.prediction.uses.comparing import Compared, compare
from gibbsite.prediction.uses.contrasting import Contrast, contrast
from gibbsite.prediction.uses.deciding import Decision, decide
from gibbsite.prediction.uses.effects import Effects, effects
from gibbsite.prediction.verbs import predict, predict_prior

__all__ = [
    "Checks",
    "Compared",
    "Contrast",
    "Decision",
    "Effects",
    "Many",
    "Prediction",
    "checks",
    "compare",
    "contrast",
    "decide",
    "effects",
    "left_out",
    "many",
    "packed",
    "predict",
    "predict_prior",
    "unpacked",
]
