"""A flat program → what is known of each of its arrays: every analysis is a domain on one interpreter."""
