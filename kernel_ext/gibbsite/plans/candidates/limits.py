"""Every number that the choice of a schedule rests on, with the measurement that set it.

All are of `benchmarks/regret.py`, whose table holds work against processor time and predicted times against
those of runs: four chains, float32, two cores.
"""

# A unit of work is an element of an elementwise operation, about a nanosecond for four chains. With these
# worths the count of a sweep is within a factor of 2.5 of its time, over 24 schedules of 28 to 2600
# microseconds.
ARITHMETIC = 16.0  # multiplications and additions of matrices in a unit
COSTLY = 5.0  # an exponential, a logarithm
LONG, AT_ONCE = 256, 8  # elements of an array from which on a processor takes so many at once
VARIATE = 100.0  # a gamma variate
OPERATION = 200.0  # an operation that XLA starts by itself
OPERATION_IN_LOOP = 20.0  # within a loop, which is one function on CPUs
FACTORISATION = 800.0  # a call of LAPACK, however small (a random walk of 80: 450 microseconds, one a state)
LOOP = 2  # passes of a loop of which nobody told how often it is expected to run
SWEEP = 15e3  # a sweep as such: keys, states, what is recorded
TREE = 2.5e3  # a gradient's share of the tree of NUTS

# Gradients per step of NUTS for the root of the numbers moved: 6 to 55 counted, of 4 to 253 numbers.
PATH = 3.5
# The time of its draws: .7 to 3.5; in a hierarchy up to 7 (five effects, noise 8), where the scale reaches
# zero; 34 and 38 (eight states, one datum for each) where the noise can, too: as many states as data meet all
# of these, and a density without bound is where the noise is zero.
GRADIENT_TIMES, MOST_GRADIENT_TIMES, MOST_UNBOUNDED_TIMES = 1.5, 8.0, 34.0
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
# Coefficients for each datum up to which the noise's time follows from their number (a half: 3 by the
# count, 3 as measured; 60 of 100: 4 and 3.4; but 7 where the effects' scale is the same number).
FILLED = 0.4

# A regret that is let pass without a trial: the least that predictions are wrong by.
CLOSE = 2.0
# Processor nanoseconds of a trial (compiled as fast as can be), and of compiling a kernel beyond what
# conjugate draws take.
TRIAL = 6.5e8
COMPILED = {"Collapsed": 1.2e9, "PolyaGamma": 1.2e9, "NUTS": 2.8e9}
# Sweeps of the run that a trial has to pay for: 500 of warm-up and 2000 draws.
SWEEPS = 2500
# Chains of a trial, sweeps before it looks and while it does: times of 1 to 35 within a fifth, above that too
# short (340 is taken for 77), which no choice depends on.
STATES, LEFT_OUT, KEPT = 16, 60, 100
# Work beyond which nothing is tried: about two processor seconds.
MOST_TRIED = 2e9

# Whether draws in turn lead anywhere: tables are looked at up to so many entries, at draws from the prior. A
# site that may move in a share p of them passes for stuck with probability (1 - p)^DECIDED_STATES.
MOST_ENTRIES, STUCK_STATES, DECIDED_STATES = 2**20, 3, 64
# Of these, so many must be possible before a model is refused.
LEAST_SEEN = 16
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
