"""JupyterLab, a page of the graph, and a simulated run."""
