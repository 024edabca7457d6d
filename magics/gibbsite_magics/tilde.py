"""Find the tilde statements of a cell with Python's own tokenizer.

`name ~ dist`, `name[i] ~ dist` and `table.column ~ dist` are sampling statements where a statement may begin
and nowhere else; every other `~` is Python's unary operator, or a mistake that is reported where it stands.
"""

import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SKIPPED = {tokenize.COMMENT, tokenize.NL}
LAYOUT = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENCODING, tokenize.ENDMARKER}
COMPOUND = frozenset("if elif else for while with try except finally def class async match case".split())
NEVER_A_SITE = {"lambda", "class", "def", "True", "False", "None", "global", "import", "from", "is", "pass"}
Position = tuple[int, int]
"""Line counted from 1, column in characters counted from 0, both in the cell's body."""


def _error(message: str, start: Position, end: Position) -> SyntaxError:
    error = SyntaxError(message)
    error.lineno, error.offset = start[0], start[1] + 1
    error.end_lineno, error.end_offset = end[0], end[1] + 1
    return error


@dataclass(frozen=True)
class Tilde:
    """One sampling statement: `name`, `name[index]` or `name.column`, the tilde, a distribution.

    `start` is where the name begins, `name_end` where it ends, `tilde` where the operator stands and `end`
    where the last token of the distribution ends; `column` is what follows the dot.
    """

    name: str
    start: Position
    name_end: Position
    indexed: bool
    tilde: Position
    end: Position
    column: str | None = None


def find_tildes(body: str) -> tuple[Tilde, ...]:
    """All sampling statements of `body`, in order. Raises `SyntaxError` for a `~` that makes no sense.

    Text that Python cannot tokenize to its end is no error here: what was read before is returned, and the
    parser says what is wrong, as it always does.
    """
    found = []
    for statement in _statements(_tokens(body)):
        tilde = _match(statement)
        if tilde is not None:
            found.append(tilde)
    return tuple(found)


def _tokens(body: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(body).readline)
    except (tokenize.TokenError, SyntaxError):
        return


@dataclass(frozen=True)
class _Statement:
    """`unclosed` tells that the cell ends inside of a bracket, and the statement with it."""

    tokens: Sequence[tokenize.TokenInfo]
    unclosed: bool = False


def _statements(tokens: Iterator[tokenize.TokenInfo]) -> Iterator[_Statement]:
    """Split at line ends, at `;` and after the colon of a compound statement, outside of all brackets."""
    current: list[tokenize.TokenInfo] = []
    depth = lambdas = 0
    for token in tokens:
        if token.type in SKIPPED or (token.type in LAYOUT and token.type != tokenize.NEWLINE):
            continue
        text = token.string
        if token.type == tokenize.OP and text in "([{":
            depth += 1
        elif token.type == tokenize.OP and text in ")]}":
            depth = max(depth - 1, 0)
        if token.type == tokenize.NEWLINE or (text == ";" and depth == 0):
            if current:
                yield _Statement(tuple(current))
            current, lambdas = [], 0
            continue
        current.append(token)
        if depth == 0 and token.type == tokenize.NAME and text == "lambda":
            lambdas += 1
        elif depth == 0 and token.type == tokenize.OP and text == ":":
            if lambdas:
                lambdas -= 1
            elif current[0].string in COMPOUND:
                yield _Statement(tuple(current))
                current = []
    if current:
        yield _Statement(tuple(current), depth > 0)


def _match(statement: _Statement) -> Tilde | None:
    tokens = statement.tokens
    at = _tilde_after_target(tokens)
    binary = [
        i
        for i in range(1, len(tokens))
        if tokens[i].string == "~" and tokens[i].type == tokenize.OP and _ends_operand(tokens[i - 1])
    ]
    if tokens[0].string == "match" and tokens[-1].string == ":":
        return None  # `match ~flags:` is Python's own
    wrong = next((i for i in binary if i != at), None)
    if wrong is not None and not statement.unclosed:
        called = len(tokens) > 1 and tokens[1].string == "(" and tokens[wrong - 1].string == ")"
        computed = "".join(t.string for t in tokens[:wrong])
        raise _error(
            "'~' samples only in a statement of its own, with a name, one indexed name or a column "
            "of a table "
            "on its left: 'mu ~ Normal(0, 1)', 's[i] ~ Normal(0, 1)', 'df.y ~ Normal(mu, 1)'"
            + f"; what is computed is observed by `numpyro.sample('…', …, obs={computed})`"
            * called,
            tokens[wrong].start,
            tokens[wrong].end,
        )
    first = tokens[0]
    if len(tokens) > 1 and first.string in NEVER_A_SITE and tokens[1].string == "~":
        raise _error(
            f"{first.string!r} is a word of Python and cannot name a site; {first.string + '_'!r} can",
            first.start,
            first.end,
        )
    if at is None:
        return None
    tilde = tokens[at]
    if at + 1 == len(tokens):
        raise _error("a distribution is missing after '~'", tilde.start, tilde.end)
    if tokens[at + 1].string.startswith("=") and tokens[at + 1].start == tilde.end:
        raise _error("'~=' is not an operator; write '~'", tilde.start, tokens[at + 1].end)
    column = tokens[2].string if tokens[1].string == "." else None
    indexed = at > 1 and column is None
    return Tilde(first.string, first.start, first.end, indexed, tilde.start, tokens[-1].end, column)


def _tilde_after_target(tokens: Sequence[tokenize.TokenInfo]) -> int | None:
    """Where the `~` stands if the statement begins with `name ~`, `name[…] ~` or `name.column ~`."""
    if tokens[0].type != tokenize.NAME or keyword.iskeyword(tokens[0].string):
        return None
    at = 1
    if len(tokens) > 1 and tokens[1].string == "[":
        depth = 1
        while depth and at + 1 < len(tokens):
            at += 1
            if tokens[at].type == tokenize.OP:
                depth += (tokens[at].string in "([{") - (tokens[at].string in ")]}")
        at += 1
    elif len(tokens) > 2 and tokens[1].string == "." and tokens[2].type == tokenize.NAME:
        at = 3
    if at < len(tokens) and tokens[at].type == tokenize.OP and tokens[at].string == "~":
        return at
    return None


def _ends_operand(token: tokenize.TokenInfo) -> bool:
    """Whether a value may end with this token, so that a `~` after it can only be a binary operator."""
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.string) or token.string in {"True", "False", "None"}
    return token.type in {tokenize.NUMBER, tokenize.STRING} or token.string in {")", "]", "}"}
