"""One request while it is answered: from its input to the pieces of its answer."""
