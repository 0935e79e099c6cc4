"""The codec of the log, its golden rows and one sample of each kind."""
