"""Which `~` samples, which is left alone, and where the caret stands when one makes no sense."""

import ast
import importlib
from pathlib import Path

import pytest
from gibbsite_magics.rewrite import rewrite
from gibbsite_magics.tilde import find_tildes


def shown(body: str, *parameters: str) -> str:
    return rewrite("\n" + body, parameters).text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("w ~ D(1)", 'w = numpyro.sample("w", D(1))'),
        ("w~D(1)", 'w= numpyro.sample("w", D(1))'),
        ("w  ~ D(1)  # a ~ b", 'w  = numpyro.sample("w", D(1))  # a ~ b'),
        ("w ~ (D(1))", 'w = numpyro.sample("w", (D(1)))'),
        ("a ~ D(1); b ~ D(a)", 'a = numpyro.sample("a", D(1)); b = numpyro.sample("b", D(a))'),
        ("w ~ D(\n    1,\n    2,  # two ~\n)", 'w = numpyro.sample("w", D(\n    1,\n    2,  # two ~\n))'),
        ("w ~ \\\n  D(1)", 'w = numpyro.sample("w", \\\n  D(1))'),
        ("w ~ A(1) if c else B(~c)", 'w = numpyro.sample("w", A(1) if c else B(~c))'),
        ("if c: w ~ D(1)", 'if c: w = numpyro.sample("w", D(1))'),
        ("if a[1:2] == {1: 2}: w ~ D(1)", 'if a[1:2] == {1: 2}: w = numpyro.sample("w", D(1))'),
        ("while (lambda: c)(): w ~ D(1)", 'while (lambda: c)(): w = numpyro.sample("w", D(1))'),
        ("try:\n  w ~ D(1)\nfinally: pass", 'try:\n  w = numpyro.sample("w", D(1))\nfinally: pass'),
        ("with p as q, r: w ~ D(1)", 'with p as q, r: w = numpyro.sample("w", D(1))'),
        ("match ~ D(1)", 'match = numpyro.sample("match", D(1))'),
        ("match k:\n  case 1: w ~ D(1)", 'match k:\n  case 1: w = numpyro.sample("w", D(1))'),
        ("é ~ D('ü~'); w ~ D(1)", 'é = numpyro.sample("é", D(\'ü~\')); w = numpyro.sample("w", D(1))'),
    ],
)
def test_sampling_statements(body: str, expected: str):
    assert shown(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "a = ~b",
        "a = [~b, ~c]",
        "f(~b)[~c]",
        "a = b + ~c",
        "return_ = lambda: ~b",
        "assert ~b",
        "match ~b:\n    case 1: pass",
        't = \'a ~ b\'; u = """\na ~ b\n"""',
        "a = 1  # a ~ b",
        "a: int = ~b",
        "while ~b: c = not ~d",
    ],
)
def test_what_is_left_alone(body: str):
    assert find_tildes(body) == ()
    assert ast.dump(ast.parse(shown(body))) == ast.dump(ast.parse(body))


def test_an_argument_is_observed():
    assert shown("x ~ D(1)", "x") == 'x = numpyro.sample("x", D(1), obs=x)'


def test_indexed_sites_fill_their_name():
    assert shown("for i in range(3):\n    s[i] ~ D(1)") == (
        's = {}\nfor i in range(3):\n    s[i] = numpyro.sample(f"s[{i}]", D(1))'
    )


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ("0", '"s[0]"'),
        ("i + 1", 'f"s[{i + 1}]"'),
        ("i, 2", 'f"s[{i},2]"'),
        ("'a'", '"s[a]"'),
        ("k['a']", "f\"s[{k['a']}]\""),
    ],
)
def test_names_of_indexed_sites(index: str, name: str):
    assert shown(f"s[{index}] ~ D(1)") == f"s = {{}}\ns[{index}] = numpyro.sample({name}, D(1))"


def test_a_container_of_the_users_own_is_kept():
    body = "s = [None] * 3\nfor i in range(3): s[i] ~ D(1)"
    assert shown(body).startswith("s = [None] * 3\nfor")
    later = "for i in range(3): s[i] ~ D(1)\ns = stack(s)"
    assert shown(later).startswith("s = {}\nfor")


def test_indexed_argument_is_read_but_never_written():
    assert shown("x_sites = 1\nx[i] ~ D(1)", "x").split("\n") == [
        "x_sites_ = {}",
        "x = x_sites_ if x is None else x",
        "x_sites = 1",
        'x_sites_[i] = numpyro.sample(f"x[{i}]", D(1), obs=None if x is x_sites_ else x[i])',
    ]


def test_the_docstring_stays_first():
    assert shown('"""Doc."""\n\ns[0] ~ D(1)').split("\n")[:2] == ['"""Doc."""', "s = {}"]


def test_argument_of_an_inner_function_is_observed_there():
    body = "def step(c, y):\n    y ~ D(c)\n    return c, y"
    assert 'y = numpyro.sample("y", D(c), obs=y)' in shown(body, "x")


def test_a_state_that_is_drawn_from_the_last_is_no_datum():
    body = "def step(x, y):\n    x ~ D(x)\n    y ~ D(x)\n    return x, y"
    assert 'x = numpyro.sample("x", D(x))\n' in shown(body, "y0")
    assert 'y = numpyro.sample("y", D(x), obs=y)' in shown(body, "y0")


def test_what_runs_is_what_is_shown():
    body = '"""D."""\n# c\nw ~ D(\n  1)\nfor i in range(2):\n  s[i] ~ D(w); x[i] ~ D(s[i])  # ~\n'
    result = rewrite("\n" + body, ["x"])
    assert [ast.dump(a) for a in result.statements] == [ast.dump(a) for a in ast.parse(result.text).body]


def test_positions_are_those_of_the_cell():
    body = "\néé = 1; w ~ Normal(0, bad)"
    call = rewrite(body, ()).statements[1].value  # type: ignore[attr-defined]
    bad = call.args[1].args[1]
    line = body.split("\n")[1].encode()
    assert (bad.lineno, line[bad.col_offset : bad.end_col_offset]) == (2, b"bad")
    assert line[call.args[1].col_offset : call.args[1].end_col_offset] == b"Normal(0, bad)"
    assert line[call.col_offset : call.end_col_offset] == b"~ Normal(0, bad)"


@pytest.mark.parametrize(
    ("body", "line", "marked", "says"),
    [
        ("a = 1\nb, c ~ D(1)", 3, "~", "a statement of its own"),
        ("a = 1\nx = (b ~ D(1))", 3, "~", "a statement of its own"),
        ("f(x) ~ D(1)", 2, "~", "a statement of its own"),
        ("m.x ~ D(1)", 2, "m.x", "no argument of the model"),
        ("m.n.x ~ D(1)", 2, "~", "a statement of its own"),
        ("s[0][1] ~ D(1)", 2, "~", "a statement of its own"),
        ("w ~ D(1) ~ E(2)", 2, "~", "a statement of its own"),
        ("w ~", 2, "~", "distribution is missing"),
        ("w ~= D(1)", 2, "~=", "not an operator"),
        ("lambda ~ Gamma(1, 1)", 2, "lambda", "'lambda_'"),
        ("w ~ D(1) = 3", 2, "D(1)", "cannot assign"),
        ("w ~ v = D(1)", 2, "v", "one site"),
        ("w ~ D(1), D(2)", 2, "D(1), D(2)", "one distribution"),
        ("s[1:2] ~ D(1)", 2, "s[1:2]", "not a slice"),
        ("s[1:] ~ D(s[:-1])", 2, "s[1:]", "`numpyro.sample('…', D(s[:-1]), obs=s[1:])`"),
        ("log(y) ~ D(1)", 2, "~", "observed by `numpyro.sample('…', …, obs=log(y))`"),
        ("w ~ D(1), obs=y", 2, "w ~", "observed by `numpyro.sample('…', …, obs=…)`"),
        ("w ~ D(1\nv ~ D(2)", 2, "(", "never closed"),
        ("w ~ D(1))", 2, ")", "unmatched"),
        ("w ~ D('a)", 2, "'", "line 2"),
        ("for i in r\n    w ~ D(1)", 2, "", "expected ':'"),
        ("w ~ D(1 2)", 2, "1 2", "comma"),
        ("w ~ D(1)\n  v ~ D(2)", 3, "", "unexpected indent"),
        ("é = 'é'; w ~ D(é é)", 2, "é é", "comma"),
        ("yield 3", 2, "yield 3", "cannot 'yield'"),
        ("# nothing", 2, "", "no statement"),
        ("def f():\n    x ~ D(1)", 3, "x ~ D(1)", "outside of the function 'f'"),
        ("def f(s):\n    s[0] ~ D(1)", 3, "s[0] ~ D(1)", "cannot be sites"),
    ],
)
def test_the_caret_stands_at_the_mistake(body: str, line: int, marked: str, says: str):
    with pytest.raises(SyntaxError) as caught:
        rewrite("\n" + body, ["x"])
    error = caught.value
    assert says in str(error)
    assert error.lineno == line
    assert error.text == body.split("\n")[line - 2] + "\n"
    start = (error.offset or 1) - 1
    assert error.text[start : start + len(marked)] == marked


@pytest.mark.parametrize(
    "module",
    ["_pydecimal", "argparse", "ast", "colorsys", "enum", "inspect", "ipaddress", "random", "re"],
)
def test_plain_python_comes_through_unchanged(module: str):
    source = Path(importlib.import_module(module).__file__ or "").read_text(encoding="utf-8")
    assert find_tildes(source) == ()
    result = rewrite(source, ())
    assert [ast.dump(a) for a in result.statements] == [ast.dump(a) for a in ast.parse(source).body]
    assert result.text == source.strip("\n")
