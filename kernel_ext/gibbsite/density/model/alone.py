"""One thread at a time where NumPyro's handlers are at work.

NumPyro keeps its handlers on one stack for the whole process: two models that are traced at once would apply
their handlers to each other's statements. Whatever runs a model takes this lock; it can be taken again by its
holder."""

import threading

handlers_alone = threading.RLock()
