"""What a run foretells: the part of `Run` that asks the floor above for predictions."""

from collections.abc import Mapping
from typing import Any

from gibbsite.ground.above import ask


class Predicting:
    """For `Run`, by way of `Looking`."""

    def predict(
        self,
        table: Any = None,
        /,
        *,
        do: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
        draws: int | None = None,
        seed: int = 0,
        **arguments: Any,
    ) -> Any:
        """What the model says of other data: its own arguments with new values, by name or as a new table.

        An argument of None is drawn, one that is not given stays; without any, replicates of the data are
        drawn. Data are always drawn. Elements of plates that the run knows, by label (or by place, where
        there
        are none), keep their draws; new ones are drawn given them. `do` sets arguments, columns or sites;
        `given` conditions on values of observed sites. `draws` is how many per chain, evenly spaced (all).

        Returns a `Prediction`: `.draws`, `.probs`, `.to_frame()`, `.plot()`, `.to_datatree()`, `.derive(…)`,
        and
        `.note` on what was known and what was new. Raises `UnknownNameError` for names, `DataError` for data
        of
        another kind and categories that no plate has, `ModelError` for what cannot be had: a run without its
        model, sites not kept, new elements of what is drawn as a whole.
        """
        options = {"do": do, "given": given, "draws": draws, "seed": seed}
        return ask("prediction").predict(self, table, arguments, **options)

    def effects(self, name: str, values: Any = None, *, site: str | None = None, **options: Any) -> Any:
        """What the outcome does over values of an argument, a column or a site, all others as observed.

        `values` are those to look at: by default all categories, both truth values, or a grid of nine from
        the 2.5th to
        the 97.5th percentile of what was observed. Returns `Effects`: `.to_frame()`, `.slope` per unit.
        `site` is the outcome where there are several; options are those of `predict`. Raises as `predict`.
        """
        return ask("prediction").effects(self, name, values, site=site, **options)
