"""The magics: parse, delegate, display."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from gibbsite.errors import GibbsiteError, UnknownNameError
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display
from traitlets import Bool, Enum, Float, Int, Unicode, Union, observe

from gibbsite_magics.cell import cell_text, define, split_flag
from gibbsite_magics.notebook.data import Ahead, Taken, forgotten
from gibbsite_magics.said import register, show_first, ungrammatical
from gibbsite_magics.settings import evaluated, settings
from gibbsite_magics.show import FirstWait, begin, follow, show, watch
from gibbsite_magics.target import explain_run, models_in, name_to_bind


def without_comment(line: str) -> str:
    """The line up to a `#` that stands after a blank and outside of quotes, as Python would read it."""
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at].rstrip()
    return line


def parsed(magic: Callable[..., Any], line: str) -> Any:
    """The arguments of a line magic as typed, which may have a comment behind them."""
    return parse_argstring(magic, without_comment(line))


def unquoted(text: str) -> str:
    """A flag's value as typed, without the quotes that keep its spaces together."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def count(text: str) -> int:
    """A whole number as typed, `1e3` too. Raises `ValueError`, as `int` does."""
    number = float(text)
    return int(text) if not number.is_integer() or text.lstrip("+-").isdigit() else int(number)


def steps_or_auto(text: str) -> int | str:
    """A number of steps, or "auto"."""
    return "auto" if unquoted(text) == "auto" else count(text)


def default(what: str, name: str, setting: Any) -> str:
    """The help of a flag, with the number that stands for it where it is not given."""
    return f"{what} ({setting.default_value}; another: %%config Gibbsite.{name} = …)"


@magics_class
class Gibbsite(Magics):
    """Defaults of `%sample` and switches of the display; set them with `%config Gibbsite.draws = 500`."""

    draws = Int(1000, min=1, help="draws kept per chain").tag(config=True)
    warmup = Union(
        [Enum(["auto"]), Int(min=0)], default_value="auto", help="warm-up steps per chain, or auto"
    ).tag(config=True)
    chains = Int(4, min=1, help="chains").tag(config=True)
    seed = Int(0, help="random seed").tag(config=True)
    device = Unicode("", help="where chains run: cpu, gpu, …; empty: chosen by size").tag(config=True)
    check_values = Bool(
        True, help="look at what parameters and data can be when a model's cell runs, and where chains start"
    ).tag(config=True)
    show_graph = Bool(True, help="show the graph of a model when its cell runs").tag(config=True)
    interval = Float(
        None, allow_none=True, help="share of the draws in credible intervals; none: ArviZ's, 0.89"
    ).tag(config=True)
    interval_kind = Enum(
        ("eti", "hdi"), None, allow_none=True, help="equal-tailed, or highest density; none: ArviZ's"
    ).tag(config=True)
    compile_cache = Unicode(
        "auto", help="folder where compiled programs outlive the kernel; auto: the user's cache; off: nowhere"
    ).tag(config=True)
    prepare = Bool(
        True, help="while the kernel is idle, make ready what %%sample with these defaults will run"
    ).tag(config=True)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._taken: WeakKeyDictionary[Any, Taken] = WeakKeyDictionary()
        self._ahead = Ahead(self._shell)
        explain_run(self._shell)

    @observe("compile_cache")
    def _compile_cache_changed(self, change: dict[str, Any]) -> None:
        from gibbsite.programs.jaxpr.kept import choose

        choose(change["new"])

    @observe("prepare")
    def _prepare_changed(self, change: dict[str, Any]) -> None:
        if not change["new"]:
            self._ahead.drop()

    @observe("interval", "interval_kind")
    def _interval_changed(self, change: dict[str, Any]) -> None:
        from gibbsite.sampling.derived.interval import choose

        choose(self.interval, None if self.interval_kind is None else str(self.interval_kind))

    @no_var_expand
    @cell_magic
    def model(self, line: str, cell: str) -> None:
        """Define a model and bind it to a name.

        Tilde form: the cell is the body of the model.

            %%model mixture(x, K=3)
            w  ~ Dirichlet(ones(K))
            mu ~ Normal(0, 5).expand([K])
            with plate("n", len(x)):
                z ~ Categorical(w)
                x ~ Normal(mu[z], 1.0)

        `name ~ distribution` samples. A name in the parentheses is an argument: it takes the value on the
        line, or else the notebook's variable of that name; where the argument is not None, the site is
        observed. `name[i] ~ distribution` in a loop makes the sites name[0], name[1], …, read as name[i]. The
        cell sees NumPyro's distributions, plate, factor, deterministic, jnp, the usual functions of jax.numpy
        and the notebook's names; everything else is plain Python. `mixture.source` shows the plain function.

        Function form: the cell defines the function itself, in plain NumPyro.

            %%model mixture(K=3)
            def mixture(x, K):
                ...

        `%%model m(y) --missing impute` makes missing elements of y latent sites of the same distribution;
        `mask` leaves them out of the density, `drop` leaves out their rows and those of missing covariates.

        Arguments may be tables, columns and lists: `df.y ~ Normal(a[df.county], 1)` observes a column.

        Then: %graph mixture, %conditional mixture z, %schedule mixture, run = %sample mixture
        """
        __tracebackhide__ = True
        told = FirstWait(self._shell)
        from gibbsite import model as analyse

        told.loaded()
        filename = register(self._shell, cell_text(line, cell))
        try:
            line, missing = split_flag(without_comment(line))
            found = define(line, cell, self._shell.user_ns, filename)
            self._ahead.drop(found.name)
            self._ahead.make_way()
            options = {"_source": found.source, "_name": found.name, "check_values": self.check_values}
            options |= {"missing": missing} if missing else {}
            model = analyse(found.fn, *found.args, **found.kwargs, **options)
        except Exception as error:
            told.failed()
            if isinstance(error, SyntaxError) and error.filename == filename:
                raise ungrammatical(self._shell, error) from error
            raise _readable(error, self._shell, filename) from error.__cause__
        self._shell.push({found.name: model})
        told.analysed()
        doubts = model.unread
        for line in (n for n in model.notes if n not in doubts):
            # a cure is the line to write, in the names of this notebook
            cured = line.replace("`.centred(", f"`{found.name} = {found.name}.centred(")
            print(f"note: {cured}", file=sys.stderr)
        self._taken[model] = Taken(found.fn, found.args, found.kwargs, self._shell.user_ns)
        for line in [*forgotten(model, self._shell.user_ns), *doubts]:
            warnings.warn_explicit(line, UserWarning, filename, 1)
        if self.show_graph:
            show(self._shell, "show_graph", model, model.graph)
        if self.prepare:
            self._ahead.ask(found.name, model, **self._defaults())

    def _defaults(self) -> dict[str, Any]:
        """The options of `%sample` where none are given."""
        found = {n: getattr(self, n) for n in ("draws", "warmup", "chains", "seed")}
        return found | {"device": self.device or None}

    @magic_arguments()
    @argument("model", help="the name of a model")
    @argument("--draws", "-n", type=count, help=default("draws to keep per chain", "draws", draws))
    @argument(
        "--warmup",
        "-w",
        type=steps_or_auto,
        help=default("warm-up steps per chain, or auto", "warmup", warmup),
    )
    @argument("--chains", "-c", type=count, help=default("number of chains", "chains", chains))
    @argument("--seed", "-s", type=count, help=default("random seed", "seed", seed))
    @argument("--schedule", "-k", type=unquoted, help="kernels by site, in quotes: see %%schedule")
    @argument("--device", "-d", type=unquoted, help="where chains run: cpu, gpu, …")
    @argument(
        "--store",
        type=unquoted,
        help="a new folder to stream draws and state to; gibbsite.load reads it, even after a crash",
    )
    @argument("--resume", choices=["auto"], help="auto: go on with the run in --store, if one has begun")
    @argument("--until", "-u", type=unquoted, help="go on until this holds: 'ess>400, rhat<1.01'")
    @argument("--max-draws", type=int, help="with --until: the most draws per chain (20000)")
    @argument("--keep-warmup", action="store_true", help="keep the draws of warm-up too")
    @argument("--thin", type=int, help="keep one draw of so many sweeps (1)")
    @argument(
        "--keep",
        type=unquoted,
        help="sites whose draws are kept: 'mu,w'; of the others mean and spread (all)",
    )
    @argument("--no-rescue", action="store_true", help="move no chain that is lost: see run.starts")
    @argument("--shard", type=unquoted, help="a plate whose data devices share: n, n:2 (two parts), auto")
    @argument("--on", type=unquoted, help="workers that step the chains: a Dask client, a process pool, …")
    @argument("--quiet", "-q", action="store_true", help="show no dashboard")
    @argument("--background", "-b", action="store_true", help="do not wait for the draws")
    @line_magic
    def sample(self, line: str) -> Any:
        """Sample from a model, show the run while it goes on, and return it: `run = %sample mixture -n 2000`.

        An interrupt (■) ends it at the next chunk; the draws made so far are kept. With --background the
        cell ends once the schedule is chosen: `run.stop()`, `run.wait()` and the dashboard's buttons go on
        working.
        """
        __tracebackhide__ = True
        args = parsed(self.sample, line)
        model = self._model(args.model)
        names = ("draws", "warmup", "chains", "seed", "schedule", "store", "resume", "thin", "until")
        options = {n: getattr(args, n) for n in (*names, "max_draws", "keep", "shard")}
        options |= {"device": args.device or None, "keep_warmup": True if args.keep_warmup else None}
        options |= {"rescue": False if args.no_rescue else None}
        options |= {"on": None if args.on is None else evaluated(args.on, self._shell.user_ns)}
        options = self._defaults() | {n: v for n, v in options.items() if v is not None}
        self._ahead.make_way(model)
        taken = self._taken.get(model)
        for line in taken.changed(args.model, self._shell.user_ns) if taken else []:
            warnings.warn_explicit(line, UserWarning, f"%sample {args.model}", 1)
        if args.background:
            return self._plainly(lambda: begin(self._shell, partial(model.start, **options), args.quiet))
        sample, name = partial(model.sample, **options), name_to_bind(self._shell, "sample")
        return self._plainly(lambda: watch(self._shell, sample, name, quiet=args.quiet))

    @magic_arguments()
    @argument("model", help="the name of a model")
    @argument("--seconds", type=float, default=60.0, help="how long it may take (60)")
    @argument("--on", type=unquoted, help="workers that fit the data sets of the calibration")
    @argument("--seed", "-s", type=count, help=default("random seed", "seed", seed))
    @argument("--report", type=unquoted, help="a file to write the findings to, as HTML")
    @argument("--background", "-b", action="store_true", help="return at once; .stop() ends it")
    @line_magic
    def check(self, line: str) -> Any:
        """Check that the sampler of a model is right: `%check mixture --seconds 60`.

        Conditionals, sums, distributions and index maps against the model's own density; the whole schedule
        on data drawn from the model; calibration. Findings appear as they come; an interrupt keeps them.
        Returns the `Check`.
        """
        __tracebackhide__ = True
        args = parsed(self.check, line)
        model = self._model(args.model)
        self._ahead.make_way(model)
        seed = self.seed if args.seed is None else args.seed
        on = None if args.on is None else evaluated(args.on, self._shell.user_ns)
        check = self._plainly(lambda: model.check(args.seconds, seed=seed, wait=False, on=on))
        follow(self._shell, check, not args.background and name_to_bind(self._shell, "check") is None)
        if not args.background:
            check.wait().wait()  # an interrupt stops it; what is under way is waited for
        if args.report:
            check.wait().report(args.report)
        return check

    @magic_arguments()
    @argument("target", help="the name of a run, or of a model: of its last run")
    @argument("--prior", "-p", action="store_true", help="before any data: what the prior says")
    @argument("--data", type=unquoted, help="a new table, or any expression in quotes")
    @argument("--do", type=unquoted, help="what is set, in quotes: 'treated=1, dose=2.5'")
    @argument("--given", type=unquoted, help="values of observed sites to condition on, as --do")
    @argument("--draws", "-n", type=count, help="draws per chain (all; of the prior 1000)")
    @argument("--seed", "-s", type=count, help=default("random seed", "seed", seed))
    @argument("arguments", nargs="*", help="the model's arguments with new values: x=new_x y=None")
    @line_magic
    def predict(self, line: str) -> Any:
        """Predict: new data at the draws of a run, `%predict run --data new_table`, or of the prior, before
        any run, `%predict m --prior`. Without new data, replicates of the run's own, shown beside them.

        Values are Python: `%predict run x=[1,2,3] --do 'treated=1'`. Returns the `Prediction`.
        """
        __tracebackhide__ = True
        args = parsed(self.predict, line)
        space = self._shell.user_ns
        options = {n: getattr(args, n) for n in ("draws", "seed") if getattr(args, n) is not None}
        options = {"seed": self.seed} | options
        options |= {n: settings(text, space) for n in ("do", "given") if (text := getattr(args, n))}
        options |= settings(", ".join(args.arguments), space)
        tables = [] if args.data is None else [evaluated(args.data, space)]
        return self._plainly(lambda: self._foretelling(args.target, args.prior)(*tables, **options))

    def _foretelling(self, name: str, prior: bool) -> Any:
        """What predicts: the run of that name, the model where the prior is asked, or its last run."""
        from gibbsite import Run, runs

        value = self._shell.user_ns.get(name)
        if isinstance(value, Run):
            if not prior:
                return value.predict
            value = value.model
        model = self._model(name) if value is None or not hasattr(value, "fn") else value
        if prior:
            return model.predict
        found = [run for run in runs() if run.model is model]
        if not found:
            raise UsageError(f"{name!r} has no run yet: %sample {name} makes one, --prior needs none")
        return found[-1].predict

    @magic_arguments()
    @argument("model", help="the name of a model")
    @line_magic
    def graph(self, line: str) -> None:
        """Show the graph of a model: hover for a node's Markov blanket, click for its conditional."""
        __tracebackhide__ = True
        model = self._model(parsed(self.graph, line).model)
        self._plainly(lambda: show(self._shell, "show_graph", model, model.graph))

    @magic_arguments()
    @argument("model", help="the name of a model")
    @argument("site", nargs="?", help="the name of a latent site; without it, all of them")
    @line_magic
    def conditional(self, line: str) -> None:
        """Show what a site is drawn from, given the rest."""
        __tracebackhide__ = True
        args = parsed(self.conditional, line)
        model = self._model(args.model)
        latent = [name for name, site in model.sites.items() if site.role == "latent"]
        for site in [args.site] if args.site else latent:
            conditional = self._plainly(lambda site=site: model.conditional(site))
            show(self._shell, "show_conditional", conditional, conditional)
            print(f"    {conditional.kind}: {conditional.reason}")
            if site in model.summed_out:
                print("    under the schedule it is summed out, and drawn with the others that are")

    @magic_arguments()
    @argument("model", help="the name of a model")
    @argument("schedule", nargs="*", help="a schedule to look at instead of the one that would run")
    @line_magic
    def schedule(self, line: str) -> None:
        """Show what `%sample` would run: the kernel of every block, and why."""
        __tracebackhide__ = True
        args = parsed(self.schedule, line)
        model = self._model(args.model)
        text = " ".join(map(unquoted, args.schedule)) or None
        schedule = self._plainly(lambda: model.schedule(text))
        show(self._shell, "show_schedule", schedule, schedule)

    @magic_arguments()
    @argument("model", help="the name of a model")
    @argument("--depth", type=int, default=1, help="how deep nested calls are shown (1)")
    @line_magic
    def trace(self, line: str) -> None:
        """Show the tape of a model: the statements of one run, with their values."""
        __tracebackhide__ = True
        args = parsed(self.trace, line)
        model = self._model(args.model)
        view = self._plainly(lambda: model.tape.view(args.depth))
        show(self._shell, "show_tape", view, view)

    @magic_arguments()
    @argument("topic", nargs="?", help="a heading of the manual's page of errors instead: shapes")
    @line_magic
    def more(self, line: str) -> None:
        """Show what the manual says of the last error: what it means, and the way out."""
        from gibbsite.diagnostics.verdict.advice import ERRORS, advice, heading

        __tracebackhide__ = True
        topic = parsed(self.more, line).topic or heading(getattr(sys, "last_value", None))
        if topic is None:
            raise UsageError("the last error is none of Gibbsite's; a topic may be named: %more shapes")
        text = self._plainly(lambda: advice(topic, ERRORS))
        display({"text/plain": text, "text/markdown": text}, raw=True)

    @property
    def _shell(self) -> Any:
        return self.shell

    def _model(self, name: str) -> Any:
        """The model bound to a name in the notebook."""
        from gibbsite import Model

        value = self._shell.user_ns.get(name)
        if isinstance(value, Model):
            return value
        if callable(value):
            raise UsageError(f"{name!r} is a function: gibbsite.model({name}, …) makes a model of it")
        raise _readable(UnknownNameError("model", name, models_in(self._shell)), self._shell)

    def _plainly(self, action: Callable[[], Any]) -> Any:
        """Run it; errors raised on purpose come without our frames."""
        __tracebackhide__ = True
        try:
            return action()
        except GibbsiteError as error:
            raise _readable(error, self._shell) from error.__cause__


def _readable(error: Exception, shell: Any, filename: str = "") -> Exception:
    """The error as a person wants to read it: see `show_first`; its traceback begins in the user's cell.

    An error raised on purpose that concerns no line says all there is to say in its message, and is shown as
    that. Any other keeps its traceback whole: it is a bug, and a report needs the frames.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    if trace is not None:
        error = error.with_traceback(trace)
    show_first(shell, error, filename)
    if trace is None and isinstance(error, GibbsiteError) and "_render_traceback_" not in error.__dict__:
        # IPython asks an exception for its own rendering.
        message = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        error._render_traceback_ = lambda: [message]  # type: ignore[attr-defined]
    return error
