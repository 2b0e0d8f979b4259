"""What a model learns and how good it is, without torch; tests are sums that can be added."""
