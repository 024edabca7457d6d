"""`%trace` in a real JupyterLab: the statements of one run, read without any other page."""

from helpers.pages.lab import prepare


def test_the_tape_of_a_mixture_is_read_and_opened(lab):
    prepare(lab, "tape.ipynb", "%trace mixture --depth 2")
    lab.run_cell(0)
    page = lab.page.locator(".gibbsite-tape")
    page.wait_for()
    page.scroll_into_view_if_needed()
    lab.shot("tape", ".gibbsite-tape")
    lab.shot("tape_page")
    assert [t.strip()[0] for t in page.locator(".tilde .what").all_text_contents()] == ["w", "m", "z", "x"]
    page.locator("details summary").last.click()
    lab.shot("tape_open", ".gibbsite-tape")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    lab.page.wait_for_selector("body[data-jp-theme-light='false']", state="attached")
    lab.page.wait_for_timeout(300)
    lab.shot("tape_dark", ".gibbsite-tape")
    ink, ground = page.evaluate(
        """el => {
            const light = c => c.match(/[\\d.]+/g).slice(0, 3).reduce((sum, v) => sum + Number(v), 0) / 765
            let under = el
            while (under && /, 0\\)|transparent/.test(getComputedStyle(under).backgroundColor)) {
                under = under.parentElement
            }
            return [light(getComputedStyle(el).color), light(getComputedStyle(under ?? el).backgroundColor)]
        }"""
    )
    assert ink - ground > 0.5
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.page.wait_for_selector("body[data-jp-theme-light='true']", state="attached")
    lab.assert_quiet()
