"""Programs: walked, recorded, replayed."""

from gibbsite.trace.jaxpr.lapack import loop_over_batches

# before anything is compiled here
loop_over_batches()
