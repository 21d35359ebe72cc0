"""What operators are given: containers, logs, proxies."""
