"""`%trace` in a real JupyterLab: the statements of one run, read without any other page."""

CELLS = (
    """
%load_ext gibbsite
from sklearn.datasets import load_iris
x = load_iris().data[:, 2].astype("float32")
""",
    """
%%model mixture(x, K=3)
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
""",
    "%trace mixture --depth 2",
)


def test_the_tape_of_a_mixture_is_read_and_opened(lab):
    lab.write("tape.ipynb", *CELLS)
    lab.open("tape.ipynb")
    for i in range(len(CELLS)):
        lab.run_cell(i)
    page = lab.page.locator(".gibbsite-tape")
    page.wait_for()
    page.scroll_into_view_if_needed()
    lab.shot("tape", ".gibbsite-tape")
    lab.shot("tape_page")
    assert [t.strip()[0] for t in page.locator(".tilde .what").all_text_contents()] == ["w", "m", "z", "x"]
    page.locator("details summary").last.click()
    lab.shot("tape_open", ".gibbsite-tape")
    lab.assert_quiet()
