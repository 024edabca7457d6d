"""Continuous sites integrated out: against dense algebra, closed forms and sums, in double precision."""

import math

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import Message, eliminable
from gibbsite.errors import GibbsiteError, ModelError, OptionError, UnknownNameError
from helpers.models.elimination.integrals import GAUSSIAN, SCALED, noise
from helpers.truths.brute import dense
from scipy import stats

S, plate = numpyro.sample, numpyro.plate
# one per kind of structure; the others run in the slow suite
CORE = ["walk", "dynamic_regression", "crossed"]


def agree(marginal, truth, state, tolerance=1e-8):
    """Value with constants, and both gradients: the one that kernels pull back and the one of any order."""
    data = tuple(marginal.density.arguments.arrays)
    state = {n: jnp.asarray(v, float) for n, v in state.items()}
    (value, aux), slope = jax.jit(jax.value_and_grad(truth, has_aux=True))(state)

    def both(state):
        held = jax.grad(lambda s: marginal.logdensity_at(s, data))(state)
        return marginal.logdensity(state, constants=True), held, jax.grad(marginal.logdensity)(state)

    found, *slopes = jax.jit(both)(state)
    assert abs(float(found - value)) < tolerance * (1 + abs(float(value)))
    for g in slopes:
        for n, expected in slope.items():
            np.testing.assert_allclose(
                g[n], expected, atol=tolerance * (1 + np.abs(expected).max()), err_msg=n
            )
    return aux


@pytest.mark.share(10)
@pytest.mark.parametrize(
    "name", [n if n in CORE else pytest.param(n, marks=pytest.mark.slow) for n in GAUSSIAN]
)
def test_gaussians_are_integrated_out_as_by_dense_algebra(name):
    case = GAUSSIAN[name]
    with jax.enable_x64(True):
        model = gb.model(case.fn, *case.args)
        marginal = model.marginal(*case.sites)
        assert case.told in str(marginal)
        truth, unravel = dense(case, {n: model.sites[n].shape for n in case.sites})
        mean, covariance = agree(marginal, truth, case.state)
        moments = marginal.moments(case.state)
        variances = unravel(jnp.diag(covariance))
        for n, expected in unravel(mean).items():
            np.testing.assert_allclose(moments[n].mean, expected, atol=1e-8, err_msg=n)
            np.testing.assert_allclose(moments[n].variance, variances[n], atol=1e-8, err_msg=n)
        # draws back have that mean and that covariance
        count = 4000
        draw = jax.jit(jax.vmap(lambda k: marginal.sample(k, case.state)))
        drawn = draw(jax.random.split(jax.random.key(1), count))
        flat = np.concatenate([np.asarray(drawn[n]).reshape(count, -1) for n in sorted(case.sites)], 1)
        expected = np.concatenate([np.ravel(unravel(mean)[n]) for n in sorted(case.sites)])
        sd = np.sqrt(np.diag(covariance))
        assert np.abs((flat.mean(0) - expected) / sd).max() < 5 / np.sqrt(count)
        # the squared distance from the mean is chi-squared
        far = np.einsum("ni,ij,nj->n", flat - expected, np.linalg.inv(covariance), flat - expected)
        assert stats.kstest(far, "chi2", args=(len(sd),)).pvalue > 1e-4


def student(case, model):
    """The density of what is left of a normal–inverse-gamma model, by quadrature over the scale of what dense
    algebra leaves of it."""
    scale = case.sites[-1]
    inner = type(case)(case.fn, case.args, case.sites[:-1], case.state)
    truth, _ = dense(inner, {n: model.sites[n].shape for n in inner.sites})
    log_scale = jnp.linspace(-6.0, 6.0, 2001)
    step = log_scale[1] - log_scale[0]

    def at(state):
        each = jax.vmap(lambda u: truth({**state, scale: jnp.exp(u)})[0] + u)(log_scale)
        weight = jax.nn.softmax(each)
        moments = [jnp.sum(weight * jnp.exp(k * log_scale)) for k in (1, 2)]
        mean = jnp.einsum(
            "v,vi->i", weight, jax.vmap(lambda u: truth({**state, scale: jnp.exp(u)})[1][0])(log_scale)
        )
        return jax.scipy.special.logsumexp(each) + jnp.log(step), (*moments, mean)

    return at


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["regression", pytest.param("precisions", marks=pytest.mark.slow)])
def test_a_shared_scale_goes_with_its_gaussians(name):
    case = SCALED[name]
    with jax.enable_x64(True):
        model = gb.model(case.fn, *case.args)
        marginal = model.marginal(*case.sites)
        assert case.told in str(marginal) and marginal.order == case.sites
        first, second, _ = agree(marginal, student(case, model), case.state)
        moments = marginal.moments(case.state)
        scale = moments[case.sites[-1]]
        np.testing.assert_allclose(scale.mean, first, rtol=1e-6)
        np.testing.assert_allclose(scale.variance, second - first**2, rtol=1e-5)
        count = 20_000
        drawn = jax.vmap(lambda k: marginal.sample(k, case.state))(jax.random.split(jax.random.key(2), count))
        for n in case.sites:
            x = np.asarray(drawn[n])
            off = np.abs(x.mean(0) - moments[n].mean) / np.sqrt(moments[n].variance / count)
            assert off.max() < 5, n
            np.testing.assert_allclose(x.var(0), moments[n].variance, rtol=0.1, err_msg=n)


def rates(n, y):
    a, b = S("a", dist.Gamma(2.0, 0.1)), S("b", dist.Gamma(2.0, 0.1))
    with plate("J", len(n)):
        p = S("p", dist.Beta(a, b))
        S("y", dist.Binomial(n, p), obs=y)


def pumps(t, y):
    a, b = S("a", dist.Exponential(1.0)), S("b", dist.Gamma(0.1, 1.0))
    with plate("J", len(t)):
        r = S("r", dist.Gamma(a, b))
        S("y", dist.Poisson(r * t), obs=y)


def words(y):
    a = S("a", dist.Gamma(2.0, 1.0).expand([y.shape[1]]).to_event(1))
    with plate("D", len(y)):
        p = S("p", dist.Dirichlet(a))
        S("y", dist.Multinomial(y.sum(1), p), obs=y)


def spread(y):
    """A Student's t by its variances, one per datum; and means of a Normal under a Normal."""
    nu, mu = S("nu", dist.Gamma(4.0, 1.0)), S("mu", dist.Normal(0, 2))
    with plate("N", len(y)):
        v = S("v", dist.InverseGamma(nu / 2, nu / 2))
        S("y", dist.Normal(mu, jnp.sqrt(v)), obs=y)


def covariance(y):
    s = S("s", dist.Gamma(2.0, 2.0))
    c = S("c", dist.InverseWishart(5.0, scale_matrix=s * jnp.eye(2)))
    with plate("N", len(y)):
        S("y", dist.MultivariateNormal(jnp.zeros(2), covariance_matrix=c), obs=y)


def _prior(state, **priors):
    return sum(d.log_prob(state[n]).sum() for n, d in priors.items())


N, YN = np.array([12, 30, 7, 44, 25]), np.array([3, 11, 0, 44, 9])
T, YT = np.array([1.5, 9.0, 20.0, 3.0]), np.array([0, 7, 31, 2])
Y2 = noise(6, 2)
W = np.array([[3, 0, 5], [1, 1, 1], [0, 9, 2]])


# NumPyro's own go through JAX's `betaln`, which has seven digits
def _beta_binomial(a, b):
    def beta(a, b):
        return sum(jax.scipy.special.gammaln(x) for x in (a, b)) - jax.scipy.special.gammaln(a + b)

    return beta(YN + a, N - YN + b) - beta(a, b) - beta(YN + 1.0, N - YN + 1.0) - jnp.log(N + 1.0)


def _gamma_poisson(a, b):
    g = jax.scipy.special.gammaln
    share = jnp.log(b / (b + T))
    return g(a + YT) - g(a) - g(YT + 1.0) + a * share + YT * jnp.log(T / (b + T))


def _matrix_t(s):
    """The log density of rows under an inverse Wishart covariance of scale s I and 5 degrees."""
    y = jnp.asarray(Y2)
    n, d, k = len(y), 2, 5.0
    multi = jax.scipy.special.multigammaln
    before, after = k / 2 * d * jnp.log(s), (k + n) / 2 * jnp.linalg.slogdet(s * jnp.eye(d) + y.T @ y)[1]
    return multi((k + n) / 2, d) - multi(k / 2, d) - n * d / 2 * jnp.log(jnp.pi) + before - after


CLOSED = {
    "beta–binomial": (
        rates,
        (N, YN),
        "p",
        {"a": 2.5, "b": 4.0},
        lambda s: (
            _prior(s, a=dist.Gamma(2.0, 0.1), b=dist.Gamma(2.0, 0.1)) + _beta_binomial(s["a"], s["b"]).sum()
        ),
    ),
    "gamma–Poisson": (
        pumps,
        (T, YT),
        "r",
        {"a": 0.8, "b": 1.3},
        lambda s: (
            _prior(s, a=dist.Exponential(1.0), b=dist.Gamma(0.1, 1.0)) + _gamma_poisson(s["a"], s["b"]).sum()
        ),
    ),
    "Dirichlet–multinomial": (
        words,
        (W,),
        "p",
        {"a": np.array([0.7, 1.2, 2.0])},
        lambda s: (
            _prior(s, a=dist.Gamma(2.0, 1.0)) + dist.DirichletMultinomial(s["a"], W.sum(1)).log_prob(W).sum()
        ),
    ),
    "Student's t": (
        spread,
        (YT / 7.0,),
        "v",
        {"nu": 4.5, "mu": 0.3},
        lambda s: (
            _prior(s, nu=dist.Gamma(4.0, 1.0), mu=dist.Normal(0, 2))
            + dist.StudentT(s["nu"], s["mu"], 1.0).log_prob(YT / 7.0).sum()
        ),
    ),
    "matrix t": (
        covariance,
        (Y2,),
        "c",
        {"s": 0.8},
        lambda s: _prior(s, s=dist.Gamma(2.0, 2.0)) + _matrix_t(s["s"]),
    ),
}


@pytest.mark.share(5)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "Student's t" else n for n in CLOSED]
)
def test_families_are_integrated_out_as_their_closed_forms(name):
    fn, args, site, state, truth = CLOSED[name]
    with jax.enable_x64(True):
        marginal = gb.model(fn, *args).marginal(site)
        agree(marginal, lambda s: (truth(s), None), state)
        curved = jax.hessian(marginal.logdensity)({n: jnp.asarray(v, float) for n, v in state.items()})
        expected = jax.hessian(truth)({n: jnp.asarray(v, float) for n, v in state.items()})
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8), curved, expected)


@pytest.mark.slow
def test_moments_of_a_family_are_those_of_its_draws():
    with jax.enable_x64(True):
        for name in ("beta–binomial", "gamma–Poisson", "Dirichlet–multinomial"):
            fn, args, site, state, _ = CLOSED[name]
            marginal = gb.model(fn, *args).marginal(site)
            mean, variance = marginal.moments(state)[site]
            keys = jax.random.split(jax.random.key(4), 4000)
            drawn = np.asarray(jax.vmap(lambda k, m=marginal, s=state: m.sample(k, s))(keys)[site])
            assert (np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(variance / 4000) + 1e-12).all(), name
            np.testing.assert_allclose(drawn.var(0), variance, rtol=0.25, err_msg=name)


def curve(root, y):
    S("y", dist.Normal(S("f", dist.MultivariateNormal(jnp.zeros(len(y)), scale_tril=root)), 0.5), obs=y)


def test_moments_of_more_elements_than_go_at_once():
    apart = np.subtract.outer(np.arange(20), np.arange(20)) / 4
    prior = np.exp(-(apart**2) / 2) + 0.01 * np.eye(20)
    y = noise(20)
    with jax.enable_x64(True):
        moments = gb.model(curve, np.linalg.cholesky(prior), y).marginal("f").moments({})["f"]
    gain = prior @ np.linalg.inv(prior + 0.25 * np.eye(20))
    np.testing.assert_allclose(moments.mean, gain @ y, atol=1e-8)
    np.testing.assert_allclose(moments.variance, np.diag(prior - gain @ prior), atol=1e-8)


def changes(y):
    """A change point, the levels on both sides, and an indicator of a slope."""
    o = S("o", dist.HalfNormal(1.0))
    k = S("k", dist.Categorical(jnp.ones(len(y)) / len(y)))
    on = S("on", dist.Bernoulli(0.3))
    low, high = S("low", dist.Normal(0, 2)), S("high", dist.Normal(0, 2))
    b = S("b", dist.Normal(0, 1))
    t = jnp.arange(len(y))
    S("y", dist.Normal(jnp.where(t < k, low, high) + on * b * t / 5, o), obs=y)


@pytest.mark.slow
def test_few_discrete_values_go_with_gaussians_that_depend_on_them():
    y = np.array([0.3, -0.2, 0.1, 1.9, 2.2, 2.5])
    with jax.enable_x64(True):
        model = gb.model(changes, y)
        marginal = model.marginal("k", "on", "low", "high", "b")
        case = type(GAUSSIAN["walk"])(changes, (y,), ("low", "high", "b"), {})
        truth, unravel = dense(case, {n: () for n in case.sites})
        ks, ons = (a.ravel() for a in np.meshgrid(np.arange(6), np.arange(2), indexing="ij"))

        def summed(state):
            each, (means, covariances) = jax.vmap(lambda k, on: truth({**state, "k": k, "on": on}))(ks, ons)
            weight = jax.nn.softmax(each)
            mean = weight @ means
            spread = weight @ (jax.vmap(jnp.diag)(covariances) + (means - mean) ** 2)
            return jax.scipy.special.logsumexp(each), (weight, mean, spread)

        weight, mean, spread = agree(marginal, summed, {"o": 0.5})
        moments, probs = marginal.moments({"o": 0.5}), marginal.probs({"o": 0.5})
        for n, m, v in zip(sorted(case.sites), unravel(mean).values(), unravel(spread).values(), strict=True):
            np.testing.assert_allclose(moments[n], (m, v), atol=1e-8)
        np.testing.assert_allclose(probs["k"], weight.reshape(6, 2).sum(1), atol=1e-10)
        np.testing.assert_allclose(moments["on"].mean, weight.reshape(6, 2)[:, 1].sum(), atol=1e-10)
        count = 4000
        drawn = jax.vmap(lambda k: marginal.sample(k, {"o": 0.5}))(jax.random.split(jax.random.key(5), count))
        found = np.bincount(np.asarray(drawn["k"]) * 2 + np.asarray(drawn["on"]), minlength=12)
        likely = np.asarray(weight) * count > 5
        expected = np.append(np.asarray(weight)[likely], 1 - np.asarray(weight)[likely].sum()) * count
        seen = np.append(found[likely], count - found[likely].sum())
        assert np.sum((seen - expected) ** 2 / np.maximum(expected, 1)) < stats.chi2.ppf(
            1 - 1e-5, likely.sum()
        )
        assert abs(np.asarray(drawn["high"]).mean() - mean[1]) < 5 * np.sqrt(spread[1] / count)


@pytest.mark.slow
def test_discrete_sites_apart_are_summed_out_beside():
    def model(y, n):
        w, tau = S("w", dist.Beta(2.0, 2.0)), S("tau", dist.HalfNormal(1.0))
        with plate("N", len(y)):
            z = S("z", dist.Bernoulli(w))
            S("n", dist.Poisson(1.0 + 3.0 * z), obs=n)
            b = S("b", dist.Normal(w, tau))
            S("y", dist.Normal(b, 0.5), obs=y)

    y, n = noise(5), np.array([0, 4, 2, 1, 6])
    with jax.enable_x64(True):
        marginal = gb.model(model, y, n).marginal("z", "b")
        assert marginal.gone == "summed and integrated out" and set(marginal.order) == {"z", "b"}

        def truth(s):
            counts = [dist.Poisson(r).log_prob(n) for r in (1.0, 4.0)]
            mixed = jnp.logaddexp(jnp.log1p(-s["w"]) + counts[0], jnp.log(s["w"]) + counts[1])
            seen = dist.Normal(s["w"], jnp.sqrt(s["tau"] ** 2 + 0.25)).log_prob(y)
            return _prior(s, w=dist.Beta(2.0, 2.0), tau=dist.HalfNormal(1.0)) + mixed.sum() + seen.sum(), None

        agree(marginal, truth, {"w": 0.3, "tau": 0.8})
        assert set(marginal.sample(jax.random.key(0), {"w": 0.3, "tau": 0.8})) == {"z", "b"}
        assert marginal.probs({"w": 0.3, "tau": 0.8})["z"].shape == (5, 2)


def test_constants_of_tables_are_those_of_the_joint_density():
    def model(y):
        mu = S("mu", dist.Normal(0, 2))
        with plate("N", len(y)):
            z = S("z", dist.Bernoulli(0.3))
            S("y", dist.Normal(mu + z, 0.7), obs=y)

    y = noise(4)
    with jax.enable_x64(True):
        marginal = gb.model(model, y).marginal("z")
        each = [dist.Normal(0.4 + k, 0.7).log_prob(y) + np.log(p) for k, p in ((0, 0.7), (1, 0.3))]
        expected = np.logaddexp(*each).sum() + dist.Normal(0, 2).log_prob(0.4)
        np.testing.assert_allclose(marginal.logdensity({"mu": 0.4}, constants=True), expected, rtol=1e-12)
        np.testing.assert_allclose(
            marginal.moments({"mu": 0.4})["z"].mean, marginal.probs({"mu": 0.4})["z"][:, 1]
        )


def test_blocks_are_proposed():
    fn, args = GAUSSIAN["crossed"].fn, GAUSSIAN["crossed"].args
    model = gb.model(fn, *args)
    assert eliminable(model.density)[0] == ("mu", "a", "b")
    assert {("mu",), ("a",), ("b",)} <= set(eliminable(model.density))
    assert model.marginal().sites == ("mu", "a", "b")
    scaled = SCALED["precisions"]
    assert eliminable(gb.model(scaled.fn, *scaled.args).density)[0] == ("p", "a")
    marginal: Message | None = model.marginal("a").messages[0]
    assert marginal is not None and marginal.sites == ("a",)


def improper(y):
    a = S("a", dist.ImproperUniform(dist.constraints.real, (), ()))
    b = S("b", dist.ImproperUniform(dist.constraints.real, (), ()))
    s = S("s", dist.HalfNormal(1.0))
    S("y", dist.Normal(a + b, s), obs=y)


def flat_rate(y):
    s = S("s", dist.HalfNormal(1.0))
    r = S("r", dist.ImproperUniform(dist.constraints.positive, (), ()))
    numpyro.factor("scale", -jnp.log(r))
    S("y", dist.Poisson(r), obs=y)
    S("x", dist.Normal(0, s), obs=1.0)


def mixed(y):
    mu = S("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    w = S("w", dist.Beta(1, 1))
    s, nu = S("s", dist.HalfNormal(1.0)), S("nu", dist.Gamma(2.0, 1.0))
    with plate("N", len(y)):
        z = S("z", dist.Bernoulli(w))
        S("y", dist.StudentT(nu, mu[z], s), obs=y)


def loose(y):
    a, b = S("a", dist.Gamma(2.0, 1.0)), S("b", dist.Gamma(2.0, 1.0))
    m = S("m", dist.Normal(0, 1))
    with plate("N", len(y)):
        z = S("z", dist.Bernoulli(0.5))
        S("y", dist.Normal(m * z, jnp.sqrt(1 / (a * b))), obs=y)


@pytest.mark.slow
def test_what_cannot_be_integrated_out_says_why():
    y = noise(12).astype(np.float32)
    heavy, apart = gb.model(mixed, y), gb.model(loose, y)
    for model, sites, words in (
        (heavy, ["mu"], "'mu' cannot be integrated out: .*not conjugate"),
        (heavy, ["s"], "'s' cannot be integrated out"),
        (apart, ["a", "b"], "a and b cannot be integrated out together"),
        (apart, ["m", "a"], "with m integrated out, a has no conditional in closed form: the density of m"),
        (
            apart,
            ["z", "m"],
            r"'z' cannot be summed out in one block with m.*2\^12 joint values.*limit is 256",
        ),
        (apart, ["m", "y"], "observed"),
        (apart, ["m", "m"], "twice"),
        (gb.model(improper, y), ["a", "b"], "its prior is improper.*infinite"),
        (gb.model(flat_rate, 0), ["r"], "its prior is improper.*infinite"),
    ):
        with pytest.raises(GibbsiteError, match=words):
            model.marginal(*sites)
    assert np.isfinite(gb.model(improper, y).marginal("a").logdensity({"b": 0.1, "s": 1.0}))
    assert np.isfinite(gb.model(flat_rate, 3).marginal("r").logdensity({"s": 1.0}))
    marginal = apart.marginal("m")
    with pytest.raises(UnknownNameError):
        apart.marginal("mm")
    with pytest.raises(OptionError, match="constants"):
        marginal.logdensity({}, constants=1)
    for ask in (marginal.probs, marginal.best):
        with pytest.raises(ModelError, match="discrete sites"):
            ask({"a": 1.0, "b": 1.0, "z": np.zeros(12, int)})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["walk", "dynamic_regression"])
def test_what_the_sites_were_is_in_no_draw_and_no_density(name):
    """It says where means are looked for."""
    case = GAUSSIAN[name]
    with jax.enable_x64(True):
        model = gb.model(case.fn, *case.args)
        marginal, data = model.marginal(*case.sites), tuple(model.density.arguments.arrays)
        state = {n: jnp.asarray(v, float) for n, v in case.state.items()}
        r = np.random.default_rng(5)
        own = [{n: r.normal(0, sd, model.sites[n].shape) for n in case.sites} for sd in (1.0, 30.0)]

        def at(near):
            known = {**state, **near}
            density = jax.value_and_grad(lambda s: marginal.logdensity_at({**near, **s}, data))(state)
            return density, marginal.draw_at(jax.random.key(3), known, data)

        expected, *found = [jax.jit(at)(near) for near in ({}, *own)]
        for one in found:
            for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
        gone = marginal.sample(jax.random.key(3), {**state, **own[0]})
        again = marginal.sample(jax.random.key(3), {**state, **own[1]})
        for n in case.sites:
            np.testing.assert_array_equal(gone[n], again[n])


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["walk", pytest.param("crossed", marks=pytest.mark.slow)])
def test_single_precision_keeps_six_digits(name):
    """Also where innovations, or the noise, are a thousandth of what surrounds them, and where it is known
    what the sites were while they were not."""
    case = GAUSSIAN[name]
    args = (noise(200).cumsum(),) if name == "walk" else case.args
    small = {n: 1e-3 * v for n, v in list(case.state.items())[:1]}
    found = []
    for double in (False, True):
        with jax.enable_x64(double):
            kind = np.float64 if double else np.float32
            model = gb.model(case.fn, *(a.astype(kind) if a.dtype.kind == "f" else a for a in args))
            marginal, data = model.marginal(*case.sites), tuple(model.density.arguments.arrays)
            states = [{n: jnp.asarray(v, kind) for n, v in {**case.state, **s}.items()} for s in ({}, small)]
            both = jax.jit(
                jax.value_and_grad(lambda s, near, m=marginal, d=data: m.logdensity_at({**near, **s}, d))
            )
            own = marginal.sample(jax.random.key(0), states[0])
            each = [both(s, near) for s in states for near in ({}, own)]
            found.append([jax.tree.map(lambda x: np.asarray(x, float), e) for e in each])
    for at, (value, slope), (exact, true_slope) in zip(({}, {}, small, small), *found, strict=True):
        assert abs(value - exact) < 2e-6 * abs(exact)
        for n, g in true_slope.items():  # by the logarithm, as chains move
            x = {**case.state, **at}[n]
            np.testing.assert_allclose(x * slope[n], x * g, rtol=2e-4, atol=2e-5, err_msg=n)


def hazards(events, at_risk, z):
    beta = numpyro.sample("beta", dist.Normal(0, 10))
    hazard = numpyro.sample("hazard", dist.Gamma(0.01, 0.01).expand([events.shape[1]]))
    numpyro.sample("events", dist.Poisson(at_risk * jnp.exp(beta * z)[:, None] * hazard), obs=events)


@pytest.mark.share(3)
@pytest.mark.parametrize("beta", [-3.0, 0.5, 3.0])
def test_exposures_of_zero_have_slopes(beta):
    at_risk, z = np.tril(np.ones((6, 4))), np.arange(6.0)
    events = np.eye(6, 4)
    model = gb.model(hazards, events, at_risk, z)
    marginal, data = model.marginal("hazard"), model.density.arguments.arrays
    rate = at_risk * np.exp(beta * z)[:, None]
    share = (rate * z[:, None]).sum(0) / (0.01 + rate.sum(0))
    slope = -beta / 100 + (events.T @ z).sum() - ((0.01 + events.sum(0)) * share).sum()
    kernels = jax.grad(lambda b: marginal.logdensity_at({"beta": b}, data))(jnp.float32(beta))
    public = jax.grad(lambda b: marginal.logdensity({"beta": b}))(jnp.float32(beta))
    np.testing.assert_allclose([kernels, public], slope, rtol=1e-5)


@pytest.mark.slow
def test_coefficients_that_are_written_one_by_one_go_with_their_scale():
    """Statements that are alike are one site where single conditionals are derived, and three here; one that
    the scale does not share is found among them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(13, 3))
    y = 5 + x @ np.array([1.0, 0.0, 2.0]) + rng.normal(size=13)

    def model(x, y, fixed=()):
        variance = numpyro.sample("variance", dist.InverseGamma(2, 2))
        mean = 5.0
        for i in range(3):
            spread = 3.0 if i in fixed else 3 * jnp.sqrt(variance)
            mean = mean + numpyro.sample(f"b[{i}]", dist.Normal(0, spread)) * x[:, i]
        numpyro.sample("y", dist.Normal(mean, jnp.sqrt(variance)), obs=y)

    names = ("variance", *(f"b[{i}]" for i in range(3)))
    for fixed in ((1,), (0, 1, 2)):
        with pytest.raises(ModelError, match="no multiple of variance"):
            gb.model(model, x, y, fixed).marginal(*names)
    gone = gb.model(model, x, y).marginal(*names)
    cov, rest = np.eye(13) + 9 * x @ x.T, y - 5
    rate = 2 + rest @ np.linalg.solve(cov, rest) / 2
    exact = math.lgamma(8.5) - 8.5 * np.log(rate) + 2 * np.log(2) - 6.5 * np.log(2 * np.pi)
    exact -= np.linalg.slogdet(cov)[1] / 2
    assert abs(float(gone.logdensity({}, constants=True)) - exact) < 1e-4
    found = gone.moments({})
    assert abs(float(found["variance"].mean) - rate / 7.5) < 1e-4
    ridge = np.linalg.solve(x.T @ x + np.eye(3) / 9, x.T @ rest)
    assert np.allclose([float(found[n].mean) for n in names[1:]], ridge, atol=1e-4)
    drawn = jax.vmap(lambda key: gone.sample(key, {})["b[2]"])(jax.random.split(jax.random.key(0), 4000))
    assert abs(float(drawn.mean()) - ridge[2]) < 4 * float(drawn.std()) / 4000**0.5
