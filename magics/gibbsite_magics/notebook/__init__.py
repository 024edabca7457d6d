"""The notebook around a model: its data beside what a model was given, and its pauses."""
