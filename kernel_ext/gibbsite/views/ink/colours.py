"""Colours of the run's views. Colour-blind readers can tell the data apart, on light and dark grounds."""

# Chains: after Okabe and Ito, "Color Universal Design" (2008), darkened a little for thin lines on white, and
# without the red, green and grey that tell of states. They stand for nothing else.
CHAINS = ("#2f7fc1", "#e08a00", "#8f5bc4", "#159c93", "#c6619f", "#8f8a1d", "#5566c9", "#8a6244")
# Parameters that share one plot are told apart by their dashes, which stand before their names, too.
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (8, 3, 2, 3), (1, 4), (12, 4))
STROKES = ("━", "╌", "┈", "╍", "⋯", "┅")
BLOCKS = ("#475869", "#7f8f9f", "#a9b4bf", "#5f7386", "#93a1ae", "#c3cbd3", "#33424f", "#6f8090")
GOOD, BAD, WORN = "#1d8a5a", "#c8372d", "#b67700"
OTHERS = "#9aa3ad"
INK, LINE, FAINT = "#2b3036", "#a3abb5", "#e9ecef"
# The same on a ground that is not known, white or nearly black: contrasts of 4.3 to either.
ANY_INK, ANY_LINE, ANY_FAINT = "#727a84", "#868f99", "#8080803d"
# Stands for the colour of text until the page says what that is.
THEMED = "#6b747e"
STATUS = {
    "compiling": WORN,
    "warmup": WORN,
    "sampling": "#53667a",
    "finished": GOOD,
    "stopped": WORN,
    "failed": BAD,
}
