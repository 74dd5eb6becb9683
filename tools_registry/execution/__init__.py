"""Running tools: calls with their checks and bounds, the breaker that suspends a failing tool, the counters of use."""
