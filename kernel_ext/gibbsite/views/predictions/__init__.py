"""`Prediction` → pictures: data over replicates, or new rows with their intervals."""
