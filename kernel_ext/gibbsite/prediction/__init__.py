"""`Run` or `Model`, and other arguments → `Prediction`: new rows, new groups, interventions, decisions."""
