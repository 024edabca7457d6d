"""Every number that the choice of a schedule rests on, with the measurement that set it.

All are of `benchmarks/regret.py`, whose table holds work against processor time and predicted times against
those of runs: four chains, float32, two cores.
"""

# What a sweep is made of, and what one of each takes, in processor nanoseconds for four chains: fitted to the
# times of 148 schedules of 52 models (`python benchmarks/regret.py --fit`), which are within a factor of 1.8
# of the count, and within 1.5 of each other's in a model.
WORTH = {
    "element": 1.0,  # of an elementwise operation
    "costly element": 4.0,  # an exponential, a logarithm, random bits
    "arithmetic": 0.05,  # a multiplication or an addition of matrices
    "gamma variate": 100.0,
    "operation": 60.0,  # that XLA starts by itself
    "operation in a loop": 6.0,  # which is one function on CPUs
    "factorisation": 4500.0,  # a call of LAPACK, however small
    "gradient": 8800.0,  # its share of the tree of NUTS
    "number": 300.0,  # of a latent: recorded, and looked at afterwards
    "sweep": 35e3,  # as such: keys, states
}
LOOP = 2  # passes of a loop of which nobody told how often it is expected to run
# What its program is made of, likewise: within a factor of 1.3 of what compiling takes.
COMPILING = {
    "program": 2.1e9,  # as such
    "equation": 1.2e6,  # of what is traced
    "trajectories": 3.5e9,  # a block of NUTS
    "block without others": 1.0e9,  # a slice's loop around each, or an integral's gradient
}
# Sweeps of a run that a choice has to suit, as well as one without end: 500 of warm-up and 2000 draws.
SWEEPS = 2500

# Gradients per step of NUTS for the root of the numbers moved: 6 to 140 counted, of 4 to 402 numbers.
PATH = 3.5
# How many times as many where the time of its draws may be above `MOST_GRADIENT_TIMES`: 3.7 counted of 43
# numbers (a Gaussian process), 2.3 of 167 (a level and a season), none of 6 to 20; as it grows between these.
LONG_PATH, SHORT_PATH = 3.0, 15
# The time of its draws: mostly .8 to 5.3 (hierarchies in learnt coordinates .8 to 2.6, mixtures without their
# labels and a scale by itself the longest), 6.7 and 7.1 in two, 40 with 200 horseshoe columns, which is not
# foreseen; 34, 38 (eight states, one datum for each), 43 (a walk of 80) and 26 to 108 (a map of 49 areas)
# where as many states as there are data can take all of these from their noise: with so many states, never
# as fast as others mostly are.
GRADIENT_TIMES, MOST_GRADIENT_TIMES, MOST_UNBOUNDED_TIMES = 1.2, 5.0, 34.0
STATES_TAKEN = 8
# Effects for each number of their scale below which trajectories that move both diverge, where its prior
# reaches to 0: one 36 to 97 times in 6000 draws of 24 effects, two up to 37, four up to 7, eight never
# (`python benchmarks/few_effects.py`). Neither coordinate fits, as the scale may be anything.
FEW_EFFECTS = 4
# Below how many they are still slower, and the time of their draws then: of five to eight effects, a mean and
# a slope, 2 to 213 transitions of 8000 diverged under half-Cauchy and half-normal priors ("not converged" in
# half of the runs), and 3 or none of ten and more; they had .01 to .9 of the effective draws a second of the
# same with the effects integrated out, in the middle .35.
SOME_EFFECTS, SOME_EFFECTS_TIMES = 9, 20.0
# Numbers that are Gaussian together up to which their curvature is looked at (3 s of a processor; a run takes
# minutes), at how many draws of the rest from the prior, and draws that warm-up learns a metric from.
MOST_CURVED, PRIOR_STATES, WARM_DRAWS = 1024, 5, 950
# A slice with the effects integrated out: times of 1.0 to 1.5, and times that these are solved for. Scales
# in turn hold each other: 1.6 (a walk of one datum a state) to 5.5 (of three); what lies between the two.
SLICE_TIMES, SLICES, MOST_SLICES_TIMES = 1.2, 4, 3.0
# A slice of a site by itself, likewise.
SLICE_ALONE_TIMES, SLICED = 2.0, 10

# What K effects tell of their scale beyond what data do is at most a time of K + 1 under a weak prior; few
# effects are no better off (five, noise 8: 26).
LEAST_TOLD = 20
# What discrete sites decide, drawn given them: times of 1.1 to 6.2 (a change point), 1.6 (a chain of 150),
# 7 to 60 (components that overlap), above 500 (10,000 data of such); runs are told apart up to this.
FEW_DECIDED, MOST_MISSING = 6.0, 50.0
# What counts without end decide with a probability or a rate of theirs, whose product data know: 300 for one
# count (`k ~ Binomial(N, p)`, 13 effective draws of 4000).
MOST_COUNTED = 300.0
# Coefficients for each datum up to which the noise's time follows from their number (a half: 3 by the
# count, 3 as measured; 60 of 100: 4 and 3.4; but 7 where the effects' scale is the same number).
FILLED = 0.4

# A regret that is let pass without a trial: the least that predictions are wrong by.
CLOSE = 2.0
# Regrets within this factor are equal: what the count of a sweep is off by among schedules of a model.
EQUAL = 1.4
# What a trial takes beyond its sweeps, compiled as fast as can be: as such, and for an equation (20 trials of
# .2 to 1.8 seconds, within a factor of 1.3).
TRIAL, TRIAL_EQUATION = 2.3e8, 5e5
# Chains of a trial, sweeps before it looks and while it does: times of 1 to 35 within a fifth, above that too
# short (340 is taken for 77), which no choice depends on.
STATES, LEFT_OUT, KEPT = 16, 60, 100
# Whether draws in turn lead anywhere: tables are looked at up to so many entries, at draws from the prior. A
# site that may move in a share p of them passes for stuck with probability (1 - p)^DECIDED_STATES.
MOST_ENTRIES, STUCK_STATES, DECIDED_STATES = 2**20, 3, 64
# Of these, so many must be possible before a model is refused.
LEAST_SEEN = 16
# Terms that such tables are made of: about a second for as many, in each of the states.
MOST_EVALUATED = 2**23
# Elements of one site up to which an order is looked for in which they could be summed out, to be drawn at
# once: .3 s for 400 on a lattice, where the largest whose tables are worth it has 25.
MOST_ORDERED = 128
# In logarithms: moves against such odds happen once in 160,000 sweeps, and against those never.
LONG_ODDS, NEVER = 12.0, 60.0
# Where no table holds the values: random ones, those kept, elements that are moved one by one.
TRIES, KEPT_TRIES, MOST_MOVED = 512, 32, 512
# Elements and values of a site that continuous ones may decide; elements of it that are looked at.
MOST_CROSSING, MOST_VALUES, LOOKED_AT = 4096, 64, 8
# Values of integers without end that stand for all, as tables allow.
WINDOWS = (64, 12, 5)

# Elements outside the groups of a joint Gaussian draw: 64 MB of their precision for each chain.
MOST_DENSE = 4096
# Schedules that are carried from one rewrite to the next.
BEAM = 6
# Numbers of a site that gradients do not feel which are sliced one by one where they are coupled: beyond,
# a sweep of slices takes longer than what gradients of the rest miss.
MOST_STEPPED = 32
