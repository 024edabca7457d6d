"""Models that cannot be analysed: the error names the site, the line and the way out."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError, GibbsiteError, ModelError
from numpyro.infer.reparam import LocScaleReparam


def infinite():
    n = numpyro.sample("n", dist.Poisson(3.0))
    numpyro.sample("x", dist.Normal(n, 1.0), obs=1.0)


def test_infinite_support_says_truncate():
    conditional = gb.model(infinite).conditional("n")
    assert conditional.kind == "none"
    assert "infinite support" in conditional.reason and "truncate" in conditional.reason
    for use in (conditional.logits, lambda state: conditional.sample(None, state)):
        with pytest.raises(ModelError, match="infinite support"):
            use({})


def test_support_that_depends_on_a_latent_without_end():
    def model():
        n = numpyro.sample("n", dist.Poisson(4.0))
        k = numpyro.sample("k", dist.Binomial(n, 0.3))
        numpyro.sample("x", dist.Normal(k, 1.0), obs=1.0)

    found = gb.model(model)
    assert found.conditional("k").kind == "none" and "infinite support" in found.conditional("k").reason
    assert found.schedule().text == "Window n (*) Window k"


def test_support_that_depends_on_many_latents():
    def model():
        n = numpyro.sample("n", dist.Poisson(4.0).expand([3]).to_event(1))
        k = numpyro.sample("k", dist.Binomial(n.sum(), 0.3))
        numpyro.sample("x", dist.Normal(k, 1.0), obs=1.0)

    with pytest.raises(ModelError, match=r"the support of 'k' depends on the latent site 'n'.*upper bound"):
        gb.model(model).conditional("k")


def in_distribution(n):
    numpyro.sample("y", dist.Normal(0, 1).expand([n]))


def in_plate(n):
    with numpyro.plate("p", n):
        numpyro.sample("y", dist.Normal(0, 1))


def in_arange(n):
    numpyro.sample("y", dist.Normal(jnp.arange(n), 1))


def in_loop(n):
    for i in range(int(n)):
        numpyro.sample(f"y[{i}]", dist.Normal(0, 1))


def in_numpy(n):
    numpyro.sample("y", dist.Normal(np.sqrt(n), 1))


@pytest.mark.parametrize("use", [in_distribution, in_plate, in_arange, in_loop, in_numpy])
def test_structure_that_depends_on_a_latent_names_the_line(use):
    def model():
        use(numpyro.sample("n", dist.Gamma(3.0, 1.0)))

    with pytest.raises(ModelError, match="needs the value of 'n', a random variable") as caught:
        gb.model(model)
    source = {in_loop: "for i in range(int(n))", in_plate: "plate("}
    assert source.get(use, "numpyro.sample(") in str(caught.value)
    cure = {in_loop: "leave the conversion out", in_numpy: "`jnp.sqrt(…)`"}
    assert cure.get(use, "plate of fixed size") in str(caught.value)


def test_a_site_sampled_twice():
    def model():
        numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("a", dist.Gamma(2, 1))

    with pytest.raises(ModelError, match=r"'a' is sampled in line (\d+) already.*Gamma") as caught:
        gb.model(model)
    first = model.__code__.co_firstlineno + 1
    assert f"line {first} already" in str(caught.value) and caught.value.place == (__file__, first + 1)


@pytest.mark.parametrize("missing", ["impute", "mask", "drop"])
def test_a_site_sampled_twice_where_data_are_missing(missing):
    def model(y):
        m = numpyro.sample("m", dist.Normal(0, 5))
        for _ in range(2):
            with numpyro.handlers.scope(prefix="s"):
                m = numpyro.sample("m", dist.Normal(m, 1))
        numpyro.sample("y", dist.Normal(m, 1), obs=y)

    with pytest.raises(ModelError, match=r"'s/m' is sampled twice.*another prefix each time") as caught:
        gb.model(model, np.array([0.5, np.nan, 1.5]), missing=missing)
    assert caught.value.entry == "sampled-twice" and caught.value.place is not None


def test_a_density_that_numpyro_does_not_have():
    def model():
        gammas = dist.Gamma(2.0, 1.0).expand([2])
        numpyro.sample("u", dist.GaussianCopula(gammas, correlation_matrix=jnp.eye(2)))

    with pytest.raises(ModelError, match=r"'u', GaussianCopula, asks for `cdf` of ExpandedDistribution"):
        gb.model(model)


def test_a_reparameterised_site_with_the_name_of_its_plate():
    def model():
        with numpyro.plate("x", 3):
            numpyro.sample("x", dist.Normal(0, 1))

    centred = numpyro.handlers.reparam(model, config={"x": LocScaleReparam(0)})
    with pytest.raises(ModelError, match=r"'x' is the name of a site and of a plate.*rename one"):
        gb.model(centred)


def test_a_structure_that_changes_between_traces():
    runs = []

    def model():
        runs.append(0)
        numpyro.sample("a", dist.Normal(0, 1))
        if len(runs) > 1:
            numpyro.sample("late", dist.Normal(0, 1))

    with pytest.raises(ModelError, match="changes from one run to the next: site 'late'"):
        gb.model(model)

    sizes = iter(range(3, 9))

    def resized():
        numpyro.sample("a", dist.Normal(0, 1).expand([next(sizes)]))

    with pytest.raises(ModelError, match=r"'a' is latent \(3,\) in one run and latent \(\d,\) in the next"):
        gb.model(resized)


@pytest.mark.filterwarnings("ignore:subsample_size does not match")  # NumPyro says so, and goes on
@pytest.mark.parametrize("rows", [4, 12])
def test_subsampled_plates_are_refused_with_the_reason(rows):
    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("n", 10, subsample_size=rows) as taken:
            numpyro.sample("x", dist.Normal(mu, 1), obs=x[taken])

    with pytest.raises(ModelError, match=rf"subsample of {rows} of its 10.*needs them all"):
        gb.model(model, jnp.zeros(10))


@pytest.mark.parametrize("rows", [3, 5])
def test_data_that_do_not_fit_name_the_site(rows):
    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([4]))
        numpyro.sample("x", dist.Normal(mu, 1), obs=x)

    with pytest.raises(DataError, match=rf"data of 'x' .* are {rows} long, .* Normal, is 4 long"):
        gb.model(model, jnp.zeros(rows))


def test_errors_of_the_model_itself_pass_through():
    class OwnError(RuntimeError):
        pass

    def model():
        numpyro.sample("a", dist.Normal(0, 1))
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine") as caught:
        gb.model(model)
    assert not isinstance(caught.value, GibbsiteError)
    assert any(entry.name == "model" and entry.path.name == "test_bad_input.py" for entry in caught.traceback)


def test_a_function_that_is_defined_and_not_called_samples_nothing():
    def model(x):
        def inner():
            numpyro.sample("x", dist.Normal(0, 1), obs=x)

    with pytest.raises(GibbsiteError, match="sample only where they are called"):
        gb.model(model, jnp.zeros(3))


def test_a_wrong_state_says_what_is_wrong():
    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]))
        with numpyro.plate("n", 3):
            z = numpyro.sample("z", dist.Bernoulli(0.4))
            numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)

    conditional = gb.model(model, jnp.zeros(3)).conditional("z")
    with pytest.raises(GibbsiteError, match="no value for the latent site 'mu'"):
        conditional.logits({})
    with pytest.raises(GibbsiteError, match=r"'mu' has shape \(3,\); the site has shape \(2,\)"):
        conditional.logits({"mu": jnp.zeros(3)})


def test_columns_of_shape_n_by_1_do_not_become_tables_in_a_plate():
    """A plate of n made it (n, n), in which each datum counted n times: a slope of 0, "converged"."""
    x, y = np.linspace(-1, 1, 20)[:, None], np.linspace(0, 1, 20)

    def line(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)

    def behind_a_latent(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("n", len(y)):
            e = numpyro.sample("e", dist.Normal(b * x, 1.0))
            numpyro.sample("y", dist.Normal(e, 1.0), obs=y)

    def picked(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(b[(x > 0).astype(int)], 1.0), obs=y)

    for model in (line, behind_a_latent, picked):
        with pytest.raises(DataError, match=r"counts 20 times; .*`\[:, 0\]`") as caught:
            gb.model(model, x, y)
        assert caught.value.entry == "shapes"
    with pytest.raises(DataError, match=r"\(20, 20\), which the plates make of \(20, 1\)"):
        gb.model(line, x, y)

    def of_each_element(x, y):  # data that all elements of a plate have, and a number that all data are
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("k", 3, dim=-2), numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(b[:, None] * x[:, 0], 1.0), obs=y)
        numpyro.sample("sum", dist.Normal(b, 1.0), obs=0.0)

    assert gb.model(of_each_element, x, y).density.log_joint({"b": jnp.ones(3)}) < 0
