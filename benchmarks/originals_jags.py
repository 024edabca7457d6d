"""Models of `originals_stan.py` in JAGS's language, from their mathematics: by the name of the model's
function, its text. JAGS has no flat priors: normals of a standard deviation of 10⁶ and uniforms up to 10⁵
stand for them, whose posteriors differ by less than what the draws can tell. Of `gp_pois_regr` it draws the
process itself, not what a Cholesky factor makes of white noise: it has no such factor."""

_LINES = """
  for (i in 1:N) { y[i] ~ dnorm(inprod(x[i, ], beta), pow(sigma, -2)) }
  for (k in 1:K) { beta[k] ~ dnorm(0, %s) }
  sigma ~ %s"""
_SMOOTH = """
  rho ~ dgamma(25, 4)
  alpha ~ dnorm(0, 0.25) T(0, )
  for (i in 1:N) {
    zero[i] <- 0
    for (j in 1:N) { V[i, j] <- pow(alpha, 2) * exp(-0.5 * pow((x[i] - x[j]) / rho, 2)) + equals(i, j) * %s }
  }"""
MODELS = {
    "regression": _LINES % ("1.0E-12", "dunif(0, 1.0E+5)"),
    "regression, half-Cauchy": _LINES % ("1.0E-12", "dt(0, pow(2.5, -2), 1) T(0, )"),
    "blr": _LINES % ("0.01", "dnorm(0, 0.01) T(0, )"),
    "kilpisjarvi": """
  for (i in 1:N) { y[i] ~ dnorm(alpha + beta * x[i], pow(sigma, -2)) }
  alpha ~ dnorm(mean_a, pow(sd_a, -2))
  beta ~ dnorm(mean_b, pow(sd_b, -2))
  sigma ~ dunif(0, 1.0E+5)""",
    "eight_schools": """
  for (i in 1:N) {
    y[i] ~ dnorm(theta[i], pow(error[i], -2))
    theta[i] ~ dnorm(mu, pow(tau, -2))
  }
  mu ~ dnorm(0, 0.04)
  tau ~ dt(0, 0.04, 1) T(0, )""",
    "gp_regr": f"""{_SMOOTH % "sigma"}
  sigma ~ dnorm(0, 1) T(0, )
  y[1:N] ~ dmnorm.vcov(zero[1:N], V[1:N, 1:N])""",
    "gp_pois_regr": f"""{_SMOOTH % "1.0E-5"}
  f[1:N] ~ dmnorm.vcov(zero[1:N], V[1:N, 1:N])
  for (i in 1:N) {{ k[i] ~ dpois(exp(f[i])) }}""",
    "arma11": """
  nu[1] <- mu + phi * mu
  y[1] ~ dnorm(nu[1], pow(sigma, -2))
  for (i in 2:N) {
    nu[i] <- mu + phi * y[i - 1] + theta * (y[i - 1] - nu[i - 1])
    y[i] ~ dnorm(nu[i], pow(sigma, -2))
  }
  mu ~ dnorm(0, 0.01)
  phi ~ dnorm(0, 0.25)
  theta ~ dnorm(0, 0.25)
  sigma ~ dt(0, pow(2.5, -2), 1) T(0, )""",
}
MONITORS = {
    "kilpisjarvi": ("alpha", "beta", "sigma"),
    "eight_schools": ("mu", "tau", "theta"),
    "gp_regr": ("rho", "alpha", "sigma"),
    "gp_pois_regr": ("rho", "alpha", "f"),
    "arma11": ("mu", "phi", "theta", "sigma"),
}
"""Of those that are no regressions."""
