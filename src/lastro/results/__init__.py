"""The results of trials, and the database that stores them."""
