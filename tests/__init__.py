"""The tests: `unit` and `integration` run anywhere in seconds; `contracts` once per backend; `e2e` in a browser."""
