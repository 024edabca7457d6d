"""A log density, its hierarchies and the draws of all chains → NUTS in learnt coordinates."""
