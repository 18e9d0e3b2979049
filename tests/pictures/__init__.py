"""The pictures that move: a package, so that its one browser closes when the last has run."""
