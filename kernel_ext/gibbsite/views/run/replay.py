"""A run → its course: the plots of convergence as they were when there was less of it."""

from gibbsite.sampling.run import Run
from gibbsite.sampling.watch.course import course
from gibbsite.views.plots.plot import Stage
from gibbsite.views.run import words
from gibbsite.views.run.content import MAX_CHAINS, MAX_POINTS, Content, gather
from gibbsite.views.run.convergence import OTHERS_SHOWN, rows_of
from gibbsite.views.run.status import WARMING_NOTE, table_html

STAGES = 32
# of traces in all stages together: what a page may carry, some 300 kB when it is compressed
_NUMBERS = 120_000


def stages_of(run: Run, content: Content) -> list[Stage]:
    """The course of the scalars that `content` has plots of, with its last moment at the end."""
    labels = tuple(p.label for p in content.parameters)
    others = [label for label in content.rhat if label not in labels][:OTHERS_SHOWN]
    lines = 3 * min(content.snapshot.chains, MAX_CHAINS) * max(1, len(labels))
    points = max(20, min(MAX_POINTS, _NUMBERS // (STAGES * lines)))
    moments = course(run, (*labels, *others), STAGES)
    slots, out = max(3, len(labels)), []
    for moment in moments:
        fine = MAX_POINTS if moment is moments[-1] else points
        then = gather(moment, labels, slots=slots, limit=len(labels) + len(others), points=fine)
        told = WARMING_NOTE if then.warming else table_html(then, labels)
        out.append(Stage(rows_of(then, slots, least_marks=2), words.done(then.snapshot), told))
    return out
