"""Measurements on real data, run by hand (`make bench`); each folder has its README with the last figures."""
