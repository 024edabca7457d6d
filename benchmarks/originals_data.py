"""Data of the shapes that others' programs ask the internet for, drawn from laws that suit them, smaller
where a set is large: by the name of NumPyro's data set, or of the file that a URL ends in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

RNG = np.random.default_rng(0)


def classes(rows: int, columns: int, kinds: int = 2) -> tuple[Any, Any]:
    """Covariates, and a class that leans on the first of them."""
    x = RNG.normal(size=(rows, columns)).astype(np.float32)
    return x, np.argmax(x[:, :kinds] + RNG.gumbel(size=(rows, kinds)), axis=1)


def chorales() -> tuple[Any, Any]:
    """Lengths `[N]` and notes `[N, T, 88]`, each note staying what it was more often than not."""
    lengths = RNG.integers(8, 15, 12)
    notes = np.zeros((12, 14, 88), np.int32)
    for t in range(14):
        new = RNG.random((12, 8)) < 0.3
        notes[:, t, 40:48] = np.where(RNG.random((12, 8)) < 0.7, notes[:, max(t - 1, 0), 40:48], new)
    return lengths, notes * (np.arange(14)[None, :, None] < lengths[:, None, None])


def lynx_and_hares() -> tuple[Any, Any]:
    """Years `[21]` and two populations `[21, 2]`, one after the other around a cycle."""
    turn = 2 * np.pi * np.arange(21) / 10
    cycle = np.stack([30 + 22 * np.cos(turn), 22 + 16 * np.cos(turn - 1.2)], axis=1)
    return np.arange(1900, 1921), cycle * np.exp(0.15 * RNG.normal(size=(21, 2)))


def mortality() -> tuple[Any, ...]:
    """Age, two levels of space, time, deaths and population, of 5 × 6 × 4 cells."""
    age, space, time = (a.ravel() for a in np.meshgrid(range(5), range(6), range(4), indexing="ij"))
    population = RNG.integers(500, 5000, age.size)
    rate = 1 / (1 + np.exp(6.0 - 0.6 * age + 0.05 * time))
    return age, space // 3, space, time, RNG.binomial(population, rate), population


def angles() -> tuple[Any, ...]:
    """Pairs of angles around three places."""
    places = np.array([[-1.2, -0.8], [-1.3, 2.3], [1.0, 0.6]])
    drawn = places[RNG.integers(0, 3, 150)] + 0.25 * RNG.normal(size=(150, 2))
    return (((drawn + np.pi) % (2 * np.pi) - np.pi).astype(np.float32),)


def returns() -> tuple[Any, Any]:
    """Dates and log returns `[300]` of a volatility that wanders."""
    scale = 0.01 * np.exp(np.cumsum(0.08 * RNG.normal(size=300)))
    return [str(d) for d in pd.date_range("2008-01-01", periods=300).date], scale * RNG.standard_t(6, 300)


def births() -> pd.DataFrame:
    """Two years of days with the columns of births by day."""
    days = pd.date_range("1969-01-01", periods=730)
    count = 9800 - 900 * (days.dayofweek >= 5) + 400 * np.sin(2 * np.pi * days.dayofyear / 365.25)
    more = {"day": days.day, "day_of_week": days.dayofweek + 1, "day_of_year": days.dayofyear}
    births = np.asarray(count) + 150 * RNG.normal(size=730)
    return pd.DataFrame(
        {"id": np.arange(730) + 1, "year": days.year, "month": days.month, **more, "births": births}
    )


def wells() -> pd.DataFrame:
    """Households with a well: does it change?"""
    n = 3000
    arsenic, far = RNG.gamma(2.2, 0.75, n) + 0.4, RNG.gamma(1.6, 30.0, n)
    switch = RNG.random(n) < 1 / (1 + np.exp(-(0.5 * arsenic - 0.01 * far - 0.2)))
    educ, assoc = RNG.integers(0, 18, n), RNG.integers(0, 2, n)
    return pd.DataFrame(
        {"switch": switch.astype(int), "arsenic": arsenic, "dist": far, "assoc": assoc, "educ": educ}
    )


def passengers() -> pd.DataFrame:
    """A ship's passengers, a fifth of the ages absent."""
    n = 300
    title = RNG.choice(["Mr.", "Miss.", "Mrs.", "Master.", "Dr."], n, p=[0.55, 0.2, 0.15, 0.06, 0.04])
    sex = np.where(np.isin(title, ["Miss.", "Mrs."]), "female", "male")
    middle = pd.Series(title).map({"Mr.": 32, "Miss.": 22, "Mrs.": 36, "Master.": 5, "Dr.": 45}).to_numpy()
    age = np.clip(middle + 6 * RNG.normal(size=n), 0.5, 80)
    survived = (RNG.random(n) < np.where(sex == "female", 0.7, 0.2)).astype(int)
    frame: dict[str, Any] = {"Survived": survived, "Pclass": RNG.integers(1, 4, n), "Sex": sex}
    frame["Name"] = [f"Nobody, {t} N." for t in title]
    frame["Age"] = np.where(RNG.random(n) < 0.2, np.nan, age)
    frame |= {"SibSp": RNG.integers(0, 3, n), "Parch": RNG.integers(0, 4, n)}
    return pd.DataFrame(frame | {"Embarked": RNG.choice(["S", "C", "Q"], n)})


def patients() -> pd.DataFrame:
    """A lung's capacity over weeks, of 20 patients."""
    who, weeks = np.repeat(np.arange(20), 9), np.tile(np.arange(0, 54, 6), 20)
    start, slope = RNG.normal(2700, 600, 20), RNG.normal(-4, 3, 20)
    names = {0: "ID00007637202177411956430", 1: "ID00009637202177434476278", 2: "ID00010637202177584971671"}
    known = [names.get(i, f"ID{i:023d}") for i in who]
    return pd.DataFrame(
        {
            "Patient": known,
            "Weeks": weeks,
            "FVC": start[who] + slope[who] * weeks + 130 * RNG.normal(size=180),
        }
    )


def letters() -> pd.DataFrame:
    """Who was sent a letter, and what was paid."""
    n = 500
    limit, risk = RNG.normal(1200, 300, n), RNG.beta(6, 3, n)
    email = (RNG.random(n) < 0.5).astype(int)
    opened, agreed = email * RNG.integers(0, 2, n), email * RNG.integers(0, 2, n)
    paid = 200 + 0.4 * limit + 200 * risk + 5 * email + 70 * RNG.normal(size=n)
    return pd.DataFrame(
        {"payments": paid, "email": email, "opened": opened, "agreement": agreed, "credit_limit": limit,
         "risk_score": risk}
    )  # fmt: skip


def trappings() -> pd.DataFrame:
    """A cycle of about ten years, as long as the lynxes'."""
    years = np.arange(1821, 1935)
    count = np.exp(6.7 + 1.2 * np.cos(2 * np.pi * years / 9.6) + 0.3 * RNG.normal(size=114))
    return pd.DataFrame({"time": years, "value": np.round(count)}, index=np.arange(1, 115))


SETS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "covtype": lambda: classes(1000, 54, 7),
    "higgs": lambda: classes(1000, 28),
    "jsb_chorales": chorales,
    "lynxhare": lynx_and_hares,
    "mortality": mortality,
    "9mers": angles,
    "SP500": returns,
    "boston_housing": lambda: (x := RNG.normal(size=(100, 13)), x[:, 0] + RNG.normal(size=100)),
}
TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "births_usa_1969.csv": births,
    "wells.dat": wells,
    "train.csv": passengers,
    "osic_pulmonary_fibrosis.csv": patients,
    "collections_email.csv": letters,
    "lynx.csv": trappings,
}


def load_dataset(dset: Any, batch_size: Any = None, **_: Any) -> tuple[Any, Any]:
    """In the place of NumPyro's function of that name: all rows as one batch, whatever is asked."""
    if dset.name not in SETS:
        raise OSError("data on the internet")
    arrays = SETS[dset.name]()
    return (lambda: (1, np.arange(len(arrays[0])))), (lambda *_: arrays)
