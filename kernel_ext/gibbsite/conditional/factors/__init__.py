"""Precisions of Gaussians → roots that keep their digits, and what rounding leaves of draws by them."""
