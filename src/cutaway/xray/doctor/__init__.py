"""What is wrong: checks of a machine, a model, a configuration, a server, a file and a request."""
