"""Many runs one after another: which they are, how they are run, how that looks."""
