"""Sites whose elements couple neighbours, or each other → exact joint draws by filtering."""
