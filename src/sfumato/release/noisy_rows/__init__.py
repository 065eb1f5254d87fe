"""Noisy rows are public: what is made of them, filtered, ranked and added up is post-processing, and free."""
