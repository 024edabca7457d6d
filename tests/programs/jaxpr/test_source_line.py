"""Lines as the user wrote them, in files and in notebook cells."""

import subprocess
import sys

import jax
import jax.numpy as jnp
from gibbsite.programs.jaxpr.source_line import equation_line, line_at

CELL = """
import jax, gibbsite
from ipykernel.compiler import XCachingCompiler
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.compiler_class = XCachingCompiler
shell = InteractiveShell.instance()
shell.run_cell("x = 1", store_history=True)
shell.run_cell('''
import jax.numpy as jnp
def fn(x):
    return jnp.sin(x)
''', store_history=True)
tape = gibbsite.track(shell.user_ns["fn"], 1.0)
print(next(tape.find(primitive="sin")).line)
"""


def test_a_line_in_a_file():
    (eqn,) = jax.make_jaxpr(lambda x: jnp.sin(x))(1.0).jaxpr.eqns
    place = equation_line(eqn)
    assert place is not None
    line = line_at(*place)
    assert line.text == "(eqn,) = jax.make_jaxpr(lambda x: jnp.sin(x))(1.0).jaxpr.eqns"
    assert line.cell is None
    assert str(line).startswith("test_source_line.py:")


def test_a_line_in_a_cell_has_its_number():
    out = subprocess.run([sys.executable, "-c", CELL], check=True, capture_output=True, text=True)
    assert out.stdout.strip().splitlines()[-1] == "In [2]:3: return jnp.sin(x)"


def test_names_that_ipython_gives():
    assert line_at("<ipython-input-7-abcdef>", 3).where == "In [7]:3"
