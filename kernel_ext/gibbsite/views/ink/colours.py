"""Colours of the run's views. Colour-blind readers can tell the data apart, on light and dark grounds."""

# Chains: after Okabe and Ito, "Color Universal Design" (2008), darkened a little for thin lines on white.
CHAINS = ("#2f7fc1", "#e08a00", "#12a07a", "#c6619f", "#6f5cc2", "#a3962a", "#3fa7d6", "#d1573a")
# Chosen parameters, in the panels where several parameters share one plot.
SLOTS = ("#7a4fc4", "#0f9fb0", "#d6622b", "#5b8c2a", "#b8458f", "#8a6d3b")
BLOCKS = ("#5b7fb8", "#d99a3d", "#5aa788", "#b5709f", "#8a7fc0", "#a8a05a", "#76a9c9", "#c67f6a")
GOOD, BAD, WORN = "#1d8a5a", "#c8372d", "#b67700"
OTHERS = "#9aa3ad"
INK, LINE, FAINT = "#2b3036", "#a3abb5", "#e9ecef"
STATUS = {
    "compiling": WORN,
    "warmup": WORN,
    "sampling": "#2f7fc1",
    "finished": GOOD,
    "stopped": WORN,
    "failed": BAD,
}
