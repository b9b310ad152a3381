"""What can be seen of a model, a request and a server: each view a function that returns plain records."""
